"""Open a page to play with: type a text, see its label and what each hop reads.

    pip install '.[demo]'
    python scripts/app.py runs/quickstart/model

prints the address of the page, which only this machine can reach; `--host 0.0.0.0` opens it to the
network. A model for pairs gets two fields. Other examples than the page's own come from a file:

    python scripts/app.py runs/snli --examples pairs.csv --text_column_names premise,hypothesis

As a Space of Hugging Face: write its files into a new folder, look at them, and upload them.

    python scripts/app.py runs/quickstart/model --write_space space
    hf upload NAME/OF-THE-SPACE space . --repo-type space
"""

import argparse
import sys
from collections.abc import Sequence

try:
    from sase_hf.serving.demo import TITLE, build_page, load_pipeline, read_examples, serve
    from sase_hf.serving.space import write_space
    from sase_hf.utils.cli import column_names
except ImportError as error:
    sys.exit(f"app.py: {error}")


def main(argv: Sequence[str] | None = None) -> None:
    """Serve the page until it is interrupted, or write the files of a Space.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    arguments = read_flags(argv)
    try:
        explain = load_pipeline(arguments.checkpoint)
        examples = None
        if arguments.examples is not None:
            examples = read_examples(arguments.examples, arguments.text_column_names)
        if arguments.write_space is not None:
            write_space(arguments.write_space, explain, arguments.title, examples)
            print(f"Space       {arguments.write_space}")
            return
        page = build_page(explain, arguments.title, examples)
        address = serve(page, arguments.host, arguments.port)
    except (ValueError, OSError) as error:
        sys.exit(f"app.py: {error}")
    print(f"page        {address} (Ctrl+C ends it)", flush=True)
    page.block_thread()


def read_flags(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the flags of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", help="a folder, or a name on the Hub")
    parser.add_argument("--title", default=TITLE, help="the heading (default: %(default)s)")
    parser.add_argument("--examples", metavar="FILE", help="CSV, TSV, JSON, JSON Lines or Parquet")
    parser.add_argument(
        "--text_column_names",
        type=column_names,
        default=["text"],
        metavar="NAMES",
        help='one text column, or two for pairs: "premise,hypothesis" (default: text)',
    )
    parser.add_argument("--host", help="where to listen (default: this machine alone)")
    parser.add_argument("--port", type=int, help="(default: the first free one from 7860 on)")
    parser.add_argument("--write_space", metavar="FOLDER", help="write a Space's files instead")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
