"""A checkpoint on its way to the Hub: which files may be public, and one commit of them."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import (
    CardData,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    SpaceCardData,
    constants,
    errors,
)
from huggingface_hub.constants import REPOCARD_NAME
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
)

from ..models import CHECKSUMS_NAME, FAMILIES
from ..models.checked_files import sha256_of
from ..utils.errors import refusal
from ..utils.loading import load_checkpoint
from ..utils.privacy import TOKEN
from .checks import check_card, check_code, check_files, check_labels, check_picture, weight_files

COMMIT_MESSAGE = "Upload model"
PLACEHOLDER = "ORGANISATION/NAME"  # in a card, until `push` knows the name of the repository
HEATMAP_NAME = "heatmap.svg"  # the picture of the card
LICENCE_FIELDS = ("license", "license_name", "license_link")  # of its front matter
# These files go up with the weights and the files of the family; predictions, logs, pickles stay.
PUBLIC_NAMES = (
    *(REPOCARD_NAME, HEATMAP_NAME, CONFIG_NAME, CHECKSUMS_NAME),
    *("tokenizer.json", TOKENIZER_CONFIG_FILE),
)

# Beside the graphs of an ONNX export.
EXPORTED_NAMES = (
    *("config.json", "export.json", "predictor.py"),
    *("tokenizer.json", "tokenizer_config.json"),
)

# Weights that transformers would load. Old ones of another form must not stay beside new ones.
# An export of old weights must not stay either.
WEIGHTS = re.compile(
    r"onnx/.+|(pytorch_)?model(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?"
)
_WAYS_OUT = {
    401: "log in with `hf auth login`, or set HF_TOKEN to a valid token",
    403: "use a token that may write there, or a repository of your own",
    404: "check the names of the repository and the revision",
}


ONNX_SECTION = """

## ONNX

`onnx/` has the same weights for ONNX Runtime, without torch. In a copy of this repository, run
`pip install onnxruntime tokenizers numpy` and `python onnx/predictor.py "The text."`.
"""


@dataclass(frozen=True)
class Push:
    """A checkpoint that is fit to be public.

    Attributes:
        auto_class: The Auto class that loads it; empty for a Space.
        files: The public files, by name.
        left_out: The other files and folders; a folder ends in a slash.
        repo_id: The repository, `OWNER/NAME`.
        commit: The SHA of the commit; None if nothing was sent.
    """

    auto_class: str
    files: dict[str, Path | bytes]
    left_out: list[str]
    repo_id: str = PLACEHOLDER
    commit: str | None = None

    @property
    def loading_code(self) -> str:
        """Python that loads exactly this, or the address of a Space."""
        if not self.auto_class:
            return f"{constants.ENDPOINT}/spaces/{self.repo_id}"
        revision = f', revision="{self.commit}"' if self.commit else ""
        return (
            f"import sase_hf\nfrom transformers import {self.auto_class}, AutoTokenizer\n"
            f'tokenizer = AutoTokenizer.from_pretrained("{self.repo_id}"{revision})\n'
            f'model = {self.auto_class}.from_pretrained("{self.repo_id}"{revision})'
        )


def push(
    checkpoint: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    commit_message: str = COMMIT_MESSAGE,
    dry_run: bool = False,
    onnx: str | Path | None = None,
    page: str | None = None,
    about: Mapping[str, str | None] | None = None,
    token: str | None = None,
) -> Push:
    """Check a checkpoint as `prepare` does, and put it on the Hub.

    All files arrive in one commit, so readers never load half of one model and half of another. In
    the card the name of the repository replaces the placeholder.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its README.md.
        repo_id: The repository, `OWNER/NAME`; created if it does not exist.
        private: Make the repository private; an existing one must be private already.
        revision: The branch, created if it does not exist; by default the main one.
        commit_message: The message of the commit.
        dry_run: Check all that needs no network, and send nothing.
        onnx: The folder of an ONNX export of this checkpoint; goes up as `onnx/`.
        page: HTML that holds the checkpoint; it goes up instead, as a static Space.
        about: `license` and `language` of the published card, needed if the card names none; ""
            for neither.
        token: The token for the Hub; by default the token of this machine.

    Raises ValueError for what `prepare` refuses and for a Space with other files, and OSError for
    what the Hub refuses.
    """
    validate_repo_id(repo_id)
    about = about or {}
    repo_type = "model" if page is None else "space"
    fit = prepare(checkpoint, about)
    if onnx is not None:
        fit.files.update(_exported_files(Path(onnx), Path(checkpoint), repo_id))
    if not dry_run:
        repo_id = create_repository(repo_id, private=private, token=token, repo_type=repo_type)
    card = ModelCard.load(Path(checkpoint, REPOCARD_NAME))
    vars(card.data).update({name: value for name, value in about.items() if value})
    if onnx is not None:
        card.content += ONNX_SECTION
    fit.files[REPOCARD_NAME] = str(card).replace(PLACEHOLDER, repo_id).encode()
    fit = replace(fit, repo_id=repo_id)
    if page is not None:
        fit = replace(fit, auto_class="", files=_files_of_space(card.data, repo_id, page))
    if dry_run:
        return fit
    with reraise_naming(repo_id):
        commit = _upload(HfApi(token=token), fit, repo_type, revision, commit_message)
    return replace(fit, commit=commit)


def _upload(
    api: HfApi, fit: Push, repo_type: str, revision: str | None, commit_message: str
) -> str:
    """Send all files and delete old weights, as one commit; return its SHA.

    Raises ValueError for a Space with other files.
    """
    if revision is not None:
        api.create_branch(fit.repo_id, branch=revision, exist_ok=True, repo_type=repo_type)
    held = api.list_repo_files(fit.repo_id, revision=revision, repo_type=repo_type)
    others = sorted(set(held) - fit.files.keys())
    foreign = [name for name in others if name != ".gitattributes"]
    if repo_type == "space" and foreign:
        raise refusal(
            f"the Space {fit.repo_id} holds {len(foreign)} files that are not of a page: "
            f"{', '.join(foreign[:5])}",
            "delete them there, or name a new Space",
        )
    additions = [CommitOperationAdd(name, file) for name, file in fit.files.items()]
    deletions = [CommitOperationDelete(name) for name in others if WEIGHTS.fullmatch(name)]
    # `upload_folder` is no choice: it splits an upload of some minutes into several commits.
    commit = api.create_commit(
        fit.repo_id,
        [*additions, *deletions],
        commit_message=commit_message,
        revision=revision,
        repo_type=repo_type,
    )
    return commit.oid


def _exported_files(exported: Path, folder: Path, repo_id: str) -> dict[str, Path | bytes]:
    """Return the files of an ONNX export; raise ValueError if other weights were exported."""
    record_path = exported / "export.json"
    if not record_path.is_file():
        raise ValueError(f"{exported} is no folder of an export: it has no export.json")
    record = json.loads(record_path.read_text(encoding="utf-8"))
    checksum = record["checkpoint"].get("sha256", "no single file of weights")
    if checksum not in (folder / CHECKSUMS_NAME).read_text(encoding="utf-8"):
        raise refusal(f"{exported} is not an export of the weights in {folder}", "export again")
    for name, digest in record.get("sha256", {}).items():
        path = exported / name
        if not path.is_file() or sha256_of(path) != digest:
            raise refusal(f"{name} in {exported} is not as it was exported", "export again")
    files: dict[str, Path | bytes] = {}
    for name in sorted({*EXPORTED_NAMES, *record["files"]}):
        files[f"onnx/{name}"] = exported / name
    record["checkpoint"]["name"] = repo_id  # not that of a folder of this machine
    files["onnx/export.json"] = (json.dumps(record, indent=2) + "\n").encode()
    return files


def _files_of_space(card: CardData, repo_id: str, page: str) -> dict[str, Path | bytes]:
    """Return the files of a static Space: a page, and a README.md with the licence of the card."""
    licence = {field: card.get(field) for field in LICENCE_FIELDS}
    front = SpaceCardData(sdk="static", title=repo_id.rpartition("/")[2], **licence).to_yaml()
    text = f"---\n{front}\n---\n\nA model in one HTML file: the browser reads the texts.\n"
    return {REPOCARD_NAME: text.encode(), "index.html": page.encode()}


def create_repository(
    repo_id: str, *, private: bool = False, token: str | None = None, repo_type: str = "model"
) -> str:
    """Create `OWNER/NAME`, or `NAME` of the user's own, unless it exists; return its full name."""
    api = HfApi(token=token)
    with reraise_naming(repo_id):
        repo_id = api.create_repo(
            repo_id,
            repo_type=repo_type,
            private=private or None,
            exist_ok=True,
            space_sdk="static" if repo_type == "space" else None,
        ).repo_id
        # `create_repo` leaves an existing repository as it is.
        if private and not api.repo_info(repo_id, repo_type=repo_type).private:
            raise refusal(f"{repo_id} exists and is public", "make it private in its settings")
    return repo_id


@contextmanager
def reraise_naming(repo_id: str) -> Iterator[None]:
    """Raise the errors of the Hub's client as OSError with repository and way out, no token."""
    try:
        yield
    except (errors.HTTPError, OSError, RuntimeError) as error:  # type: ignore[attr-defined]
        cause: BaseException = error
        if isinstance(error, RuntimeError) and error.__cause__:  # a file could not be sent
            cause = error.__cause__
        status = getattr(getattr(cause, "response", None), "status_code", 0)
        way_out = _WAYS_OUT.get(status, "push again when the Hub can be reached")
        if isinstance(cause, errors.OfflineModeIsEnabled):
            way_out = "unset HF_HUB_OFFLINE, or give --dry_run, which needs no network"
        reason = TOKEN.sub("[token]", " ".join(str(cause).split())).rstrip(".")
        # The traceback of the original would show the request with its token.
        raise refusal(
            f"cannot push to {repo_id}: {reason}. No file changed", way_out, OSError
        ) from None


def prepare(checkpoint: str | Path, about: Mapping[str, str | None] | None = None) -> Push:
    """Choose the public files of a checkpoint and check them, the card as if it held `about`, too.

    Raises OSError if the folder lacks a file, and ValueError if the model, its labels, tokenizer,
    code or card is not fit to be public, or a text holds a token.
    """
    folder = Path(checkpoint)
    weights = weight_files(folder)
    # Loading refuses an index that names files outside the folder, before it reads them.
    model, _ = load_checkpoint(str(checkpoint), strict=True)
    family = FAMILIES[model.config.model_type]
    allowed = [*PUBLIC_NAMES, *model.json_files, *family.files]
    if model.can_generate():
        allowed.append(GENERATION_CONFIG_NAME)
    names = sorted([*weights, *(name for name in allowed if (folder / name).is_file())])
    check_code(folder, model, family)
    check_card(folder / REPOCARD_NAME, about or {})
    if HEATMAP_NAME in names:
        check_picture(folder / HEATMAP_NAME)
    check_labels(model, family)
    check_files(folder, names)
    files: dict[str, Path | bytes] = {name: folder / name for name in names}
    left_out = []
    for path in folder.iterdir():
        if path.name not in files:
            left_out.append(f"{path.name}/" if path.is_dir() else path.name)
    auto_class = model._auto_class
    assert auto_class is not None  # a class of this package is registered
    return Push(auto_class, files, sorted(left_out))
