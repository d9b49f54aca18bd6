"""A checkpoint on its way to the Hub: one commit, read back and compared.

Until that commit nothing has changed for anybody who loads the repository, however the push ends.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    errors,
)

from ..evaluation.privacy import find_secret, without_secrets
from .checks import Publication, prepare
from .public_files import CARD_NAME

COMMIT_MESSAGE = "Upload model"

# Weights by the names that transformers looks for. Old ones beside new ones of another form would
# be loaded in their place.
WEIGHTS = re.compile(r"(pytorch_)?model(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?")

_WAYS_OUT = {
    400: "mend what it names and push again",
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
        removed: Weights that were in the repository before, in other files than those sent.
    """

    repo_id: str
    publication: Publication
    commit: str | None = None
    others: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def loading_code(self) -> str:
        """Python that loads exactly this."""
        auto_class = self.publication.auto_class
        revision = f', revision="{self.commit}"' if self.commit else ""
        return (
            f"import sase_hf\nfrom transformers import {auto_class}, AutoTokenizer\n"
            f'tokenizer = AutoTokenizer.from_pretrained("{self.repo_id}"{revision})\n'
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
    handler: bool = False,
) -> Push:
    """Put a checkpoint on the Hub, if it is fit to be there.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its README.md.
        repo_id: The repository, `OWNER/NAME`; made if it is not there.
        private: Make the repository private; one that is there must be so already.
        revision: The branch, made if it is not there; by default the main one.
        commit_message: What the history of the repository says.
        dry_run: Check everything that needs no network, and send nothing.
        handler: Add `handler.py` and `requirements.txt`, which serve the model on Hugging Face
            Inference Endpoints.

    Raises:
        FileNotFoundError: As for `publishing.prepare`.
        ValueError: Likewise, or if the message is empty or holds what looks like a secret, the
            revision is no name of a branch, or a private repository is asked for and there is a
            public one.
        OSError: If the Hub refuses or cannot be reached, or holds something else afterwards.
    """
    publication = prepare(checkpoint, repo_id, handler=handler)
    _check_words(commit_message, revision)
    if dry_run:
        return Push(repo_id, publication)
    api = HfApi()
    with explained(repo_id, "cannot be pushed to"):
        _validate_card(publication.files[CARD_NAME].decode())
        api.create_repo(repo_id, private=private or None, exist_ok=True)
    if private:
        refuse_public(api, repo_id)
    with explained(repo_id, "cannot be pushed to"):
        if revision is not None:
            ensure_branch(api, repo_id, revision)
        info, removed = send(api, repo_id, publication.files, commit_message, revision)
        commit = info.oid
    with explained(repo_id, f"was pushed as {commit}, but cannot be read back"):
        there = api.list_repo_files(repo_id, revision=commit)
        arrived = _download(api, repo_id, commit, list(publication.files))
    _compare(publication.files, arrived, f"{repo_id} at {commit}")
    others = tuple(sorted(set(there) - publication.files.keys()))
    return Push(repo_id, publication, commit, others, tuple(removed))


def send(
    api: HfApi,
    repo_id: str,
    files: Mapping[str, bytes],
    message: str,
    revision: str | None,
    token: str | None = None,
) -> tuple[CommitInfo, list[str]]:
    """Put files into a repository as one commit, in place of weights in other files.

    Args:
        api: The client.
        repo_id: The repository.
        files: Contents by name.
        message: What its history says.
        revision: The branch; by default the main one.
        token: By default the one of this machine.

    Returns:
        The commit, and the files of weights that it removed.
    """
    before = api.list_repo_files(repo_id, revision=revision, token=token)
    removed = sorted(name for name in before if WEIGHTS.fullmatch(name) and name not in files)
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        *(CommitOperationAdd(*file) for file in files.items()),
        *(CommitOperationDelete(name) for name in removed),
    ]
    info = api.create_commit(
        repo_id, operations, commit_message=message, revision=revision, token=token
    )
    return info, removed


def refuse_public(api: HfApi, repo_id: str, token: str | None = None) -> None:
    """Raise ValueError if a repository is public; the Hub ignores the wish for privacy then.

    Raises:
        ValueError: If it is.
        OSError: If the Hub refuses or cannot be reached.
    """
    with explained(repo_id, "cannot be pushed to"):
        is_private = api.model_info(repo_id, token=token).private
    if not is_private:
        raise ValueError(
            f"{repo_id} is there and public. Make it private in its settings first, or name "
            "another repository"
        )


def ensure_branch(api: HfApi, repo_id: str, name: str, token: str | None = None) -> None:
    """Make a branch if it is not there.

    Raises:
        ValueError: If there is a tag of that name, which would then mean two things.
    """
    tags = api.list_repo_refs(repo_id, token=token).tags
    if name in {tag.name for tag in tags}:
        raise ValueError(
            f"revision {name!r} is a tag in {repo_id}, which always means one commit; name a branch"
        )
    api.create_branch(repo_id, branch=name, exist_ok=True, token=token)


def _check_words(commit_message: str, revision: str | None) -> None:
    """Refuse what is public or names something, before anything is sent."""
    if not commit_message.strip():
        raise ValueError("the commit message is empty; say what is pushed")
    if found := find_secret(commit_message):
        raise ValueError(f"the commit message holds what looks like {found[0]}; take it out")
    if revision is not None and (
        not revision or revision.startswith("refs/") or re.fullmatch(r"[0-9a-f]{40}", revision)
    ):
        raise ValueError(
            f"revision {revision!r} is no name of a branch; name one, or none for the main one"
        )


def _validate_card(card: str) -> None:
    """Ask the Hub whether it takes a card, before a repository is made for it."""
    try:
        ModelCard(card).validate()
    except ValueError as reason:
        raise ValueError(f"the Hub refuses {CARD_NAME}: {reason}; mend it, push again") from None


@contextmanager
def explained(repo_id: str, what: str) -> Iterator[None]:
    """Let what goes wrong on the way to the Hub come with a way out, and without a token.

    Args:
        repo_id: The repository.
        what: What it cannot be done with it.

    Raises:
        OSError: In place of the library's errors.
    """
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


def _download(api: HfApi, repo_id: str, commit: str, names: list[str]) -> dict[str, bytes]:
    """Return the contents of files in a repository, past the cache."""
    with tempfile.TemporaryDirectory() as folder:
        api.snapshot_download(repo_id, revision=commit, local_dir=folder, allow_patterns=names)
        paths = {name: Path(folder, name) for name in names}
        return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def _compare(sent: Mapping[str, bytes], arrived: Mapping[str, bytes], where: str) -> None:
    """Raise OSError unless the Hub holds each file, byte for byte."""
    differ = [name for name, content in sent.items() if arrived.get(name) != content]
    if differ:
        raise OSError(
            f"{where} does not hold what was sent: {', '.join(differ)} differ. Push again, and "
            "tell readers to load an earlier revision until then"
        )


__all__ = ["WEIGHTS", "Push", "ensure_branch", "explained", "push", "refuse_public", "send"]
