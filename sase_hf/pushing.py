"""A checkpoint on its way to the Hub: one commit, read back and compared.

Until that commit nothing has changed for anybody who loads the repository, however the push ends.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, errors
from huggingface_hub.hf_api import RepoFile
from transformers.utils import CONFIG_NAME

from .privacy import without_secrets
from .publishing import Publication, prepare

COMMIT_MESSAGE = "Upload model"

_WAYS_OUT = {
    401: "log in with `hf auth login`, or set HF_TOKEN to a token that is valid",
    403: "take a token that may write there, or a repository of your own",
    404: "check the names of the repository and the revision, and that your token may see them",
    409: "somebody else is changing the repository; push again",
    429: "the Hub asks for patience; push again later",
}
_TRY_AGAIN = "push again when the Hub can be reached"


@dataclass(frozen=True)
class Push:
    """What was pushed, or would be.

    Attributes:
        repo_id: Where to.
        publication: What goes up and what stays.
        commit: The commit that holds it; None if nothing was sent.
        others: Files that were in the repository before and are left as they were.
    """

    repo_id: str
    publication: Publication
    commit: str | None = None
    others: tuple[str, ...] = ()

    @property
    def loading_code(self) -> str:
        """Python that loads exactly this."""
        auto_class = self.publication.auto_class
        revision = f', revision="{self.commit}"' if self.commit else ""
        return (
            f"import sase_hf\nfrom transformers import {auto_class}\n"
            f'model = {auto_class}.from_pretrained("{self.repo_id}"{revision})'
        )


def push(
    checkpoint: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    commit_message: str = COMMIT_MESSAGE,
    dry_run: bool = False,
) -> Push:
    """Put a checkpoint on the Hub, if it is fit to be there.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its README.md.
        repo_id: The repository, `OWNER/NAME`; made if it is not there.
        private: Make the repository private; one that is there must be so already.
        revision: The branch, made if it is not there; by default the main one.
        commit_message: What the history of the repository says.
        dry_run: Check everything that needs no network, and send nothing.

    Raises:
        FileNotFoundError: As for `publishing.prepare`.
        ValueError: Likewise, or if a private repository is asked for and there is a public one.
        OSError: If the Hub refuses or cannot be reached, or holds something else afterwards.
    """
    publication = prepare(checkpoint, repo_id)
    if dry_run:
        return Push(repo_id, publication)
    operations = [CommitOperationAdd(*file) for file in publication.files.items()]
    api = HfApi()
    with _explained(repo_id, "cannot be pushed to"):
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        is_private = api.model_info(repo_id).private
    if private and not is_private:
        raise ValueError(
            f"{repo_id} is there and public. Make it private in its settings first, or name "
            "another repository"
        )
    with _explained(repo_id, "cannot be pushed to"):
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        commit = api.create_commit(
            repo_id, operations, commit_message=commit_message, revision=revision
        ).oid
    with _explained(repo_id, f"was pushed as {commit}, but cannot be read back"):
        there = _read_tree(api, repo_id, commit)
        config = _read_file(api, repo_id, commit, CONFIG_NAME)
    _compare(publication.files, there, config, f"{repo_id} at {commit}")
    others = tuple(sorted(there.keys() - publication.files.keys()))
    return Push(repo_id, publication, commit, others)


@contextmanager
def _explained(repo_id: str, what: str) -> Iterator[None]:
    """Let what goes wrong on the way to the Hub come with a way out, and without a token."""
    try:
        yield
    # `HTTPError` is that of whichever client huggingface_hub is built on. A file that cannot be
    # sent comes as a RuntimeError around it.
    except (errors.HTTPError, OSError, RuntimeError) as error:  # type: ignore[attr-defined]
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        response = getattr(cause, "response", None)
        way_out = _WAYS_OUT.get(getattr(response, "status_code", 0), _TRY_AGAIN)
        if isinstance(cause, errors.OfflineModeIsEnabled):
            way_out = "unset HF_HUB_OFFLINE, or give --dry-run, which needs no network"
        reason = " ".join(without_secrets(f"{error} {cause if cause is not error else ''}").split())
        # Without the original, whose traceback shows the request.
        raise OSError(
            f"{repo_id} {what}: {reason.rstrip('.')}. No commit is left half done there; {way_out}"
        ) from None


def _read_tree(api: HfApi, repo_id: str, commit: str) -> dict[str, RepoFile]:
    """Return what the Hub says it holds, by path."""
    entries = api.list_repo_tree(repo_id, recursive=True, revision=commit)
    return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}


def _read_file(api: HfApi, repo_id: str, commit: str, name: str) -> bytes:
    """Download a file past the cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = api.hf_hub_download(repo_id, name, revision=commit, local_dir=folder)
        return Path(path).read_bytes()


def _compare(
    files: Mapping[str, bytes], there: Mapping[str, RepoFile], config: bytes, where: str
) -> None:
    """Raise OSError unless the Hub holds each file, byte for byte."""
    differ = [name for name, content in files.items() if not _is_same(content, there.get(name))]
    if config != files[CONFIG_NAME] and CONFIG_NAME not in differ:
        differ.append(CONFIG_NAME)
    if differ:
        raise OSError(
            f"{where} does not hold what was sent: {', '.join(differ)} differ. Push again, and "
            "tell readers to load an earlier revision until then"
        )


def _is_same(content: bytes, entry: RepoFile | None) -> bool:
    """Compare contents with an entry of the Hub's tree, by size and by the digest it gives."""
    if entry is None or entry.size != len(content):
        return False
    if entry.lfs is not None:
        return entry.lfs.sha256 == hashlib.sha256(content).hexdigest()
    blob = b"blob %d\0%b" % (len(content), content)  # as git names a file
    return entry.blob_id == hashlib.sha1(blob, usedforsecurity=False).hexdigest()


__all__ = ["Push", "push"]
