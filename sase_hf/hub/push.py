"""A checkpoint on its way to the Hub, as one commit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, errors
from huggingface_hub.constants import REPOCARD_NAME
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..evaluation.privacy import TOKEN
from .card import PLACEHOLDER
from .checks import Publication, prepare

COMMIT_MESSAGE = "Upload model"

# Weights that transformers would load. Old ones of another form must not stay beside new ones.
WEIGHTS = re.compile(r"(pytorch_)?model(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?")
_WAYS_OUT = {
    401: "log in with `hf auth login`, or set HF_TOKEN to a valid token",
    403: "use a token that may write there, or a repository of your own",
    404: "check the names of the repository and the revision",
}


@dataclass(frozen=True)
class Push:
    """What was pushed, or would be; `commit` is None if nothing was sent."""

    repo_id: str
    publication: Publication
    commit: str | None = None

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
    needs_license: bool = True,
    token: str | None = None,
) -> Push:
    """Check a checkpoint and put it on the Hub.

    All files arrive in one commit, so readers never load half of one model and half of another. In
    the card the name of the repository replaces the placeholder.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its README.md.
        repo_id: The repository, `OWNER/NAME`; created if it does not exist.
        private: Make the repository private; an existing one must be private already.
        revision: The branch, created if it does not exist; by default the main one.
        commit_message: The message of the commit.
        dry_run: Check all that needs no network, and send nothing.
        handler: Add the files that serve the model on Hugging Face Inference Endpoints.
        needs_license: Raise if the card names no licence or no language.
        token: For the Hub; by default the one of this machine.

    Raises:
        OSError: As for `checks.prepare`, or if the Hub refuses or cannot be reached.
        ValueError: As for `checks.prepare`, or if `private` and the repository is public.
    """
    validate_repo_id(repo_id)
    publication = prepare(checkpoint, handler=handler, needs_license=needs_license)
    if not dry_run:
        repo_id = create_repository(repo_id, private=private, token=token)
    card = Path(checkpoint, REPOCARD_NAME).read_bytes()
    publication.files[REPOCARD_NAME] = card.replace(PLACEHOLDER.encode(), repo_id.encode())
    if dry_run:
        return Push(repo_id, publication)
    api = HfApi(token=token)
    with reraise_naming(repo_id):
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        old = filter(WEIGHTS.fullmatch, api.list_repo_files(repo_id, revision=revision))
        changes: list[Any] = [
            *(CommitOperationAdd(name, file) for name, file in publication.files.items()),
            *(CommitOperationDelete(name) for name in old if name not in publication.files),
        ]
        # Not `upload_folder`, which splits an upload of more than some minutes into commits.
        commit = api.create_commit(
            repo_id, changes, commit_message=commit_message, revision=revision
        )
    return Push(repo_id, publication, commit.oid)


def create_repository(repo_id: str, *, private: bool = False, token: str | None = None) -> str:
    """Create a repository unless it exists; a run does so before it trains for hours.

    `repo_id` is `OWNER/NAME`, or `NAME` for one of the user's own; its full name is returned.
    Otherwise as for `push`.
    """
    validate_repo_id(repo_id)
    api = HfApi(token=token)
    with reraise_naming(repo_id):
        repo_id = api.create_repo(repo_id, private=private or None, exist_ok=True).repo_id
        if private and not api.model_info(repo_id).private:  # `create_repo` leaves it as it is
            raise ValueError(f"{repo_id} exists and is public; make it private in its settings")
    return repo_id


@contextmanager
def reraise_naming(repo_id: str) -> Iterator[None]:
    """Raise the errors of the Hub's client as OSError with repository and way out, no token."""
    try:
        yield
    except (errors.HTTPError, OSError, RuntimeError) as error:  # type: ignore[attr-defined]
        # RuntimeError: a file could not be sent; its cause has the reason.
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        status = getattr(getattr(cause, "response", None), "status_code", 0)
        way_out = _WAYS_OUT.get(status, "push again when the Hub can be reached")
        if isinstance(cause, errors.OfflineModeIsEnabled):
            way_out = "unset HF_HUB_OFFLINE, or give --dry-run, which needs no network"
        reason = TOKEN.sub("[token]", " ".join(str(cause).split())).rstrip(".")
        # The traceback of the original would show the request with its token.
        raise OSError(f"cannot push to {repo_id}: {reason}. No file changed; {way_out}") from None
