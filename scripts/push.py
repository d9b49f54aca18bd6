"""Publish a checkpoint on the Hugging Face Hub, after checking that it is fit to be there.

    python scripts/push.py runs/mine OWNER/NAME --dry-run
    python scripts/push.py runs/mine OWNER/NAME

Before anything is sent, the model is loaded and looked at: finite weights, named labels, the code
of this package, a card with a licence and a language, no secrets. Only the files of a model go up;
the output says what stays. They go up as one commit, which is read back and compared; the last
lines printed load exactly it. Log in first with `hf auth login`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from sase_hf.hub import Push, push
from sase_hf.hub.push import COMMIT_MESSAGE


def main(argv: Sequence[str] | None = None) -> None:
    """Push, and say what went up, what stayed and how to load it.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    flags = read_flags(argv)
    try:
        done = push(
            flags.checkpoint,
            flags.repo_id,
            private=flags.private,
            revision=flags.revision,
            commit_message=flags.commit_message,
            dry_run=flags.dry_run,
            handler=flags.handler,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"push.py: {error}")
    print(*report(done), sep="\n")


def read_flags(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the flags of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("checkpoint", help="a folder with a model, its tokenizer and its README.md")
    add("repo_id", metavar="OWNER/NAME", help="the repository, made if it is not there")
    add("--private", action="store_true", help="make the repository private")
    add("--revision", metavar="BRANCH", help="the branch, made if need be (default: main)")
    add("--commit_message", default=COMMIT_MESSAGE, help="(default: %(default)s)")
    add("--handler", action="store_true", help="add what serves it on Inference Endpoints")
    add("--dry-run", action="store_true", help="check and list everything, send nothing")
    return parser.parse_args(argv)


def report(done: Push) -> Iterator[str]:
    """Yield the lines that say what happened, or would."""
    files = done.publication.files
    for name, content in files.items():
        yield f"{'goes up':<12}{name} ({len(content):,} bytes)"
    yield f"{'goes up':<12}{len(files)} files, {sum(map(len, files.values())):,} bytes in all"
    for name in done.publication.left_out:
        yield f"{'stays here':<12}{name}"
    if done.commit is None:
        yield f"{'checked':<12}fit for {done.repo_id}; nothing was sent"
        return
    for name in done.removed:
        yield f"{'removed':<12}{name}, older weights"
    for name in done.others:
        yield f"{'left there':<12}{name}"
    yield f"{'commit':<12}{done.commit} of {done.repo_id}, read back and compared"
    yield done.loading_code


if __name__ == "__main__":
    main()
