"""A checkpoint on its way to the Hub: its listed files and its card, checked, and nothing else."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, SpaceCardData, constants, errors
from huggingface_hub.constants import REPOCARD_NAME
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from transformers.utils import CONFIG_NAME
from yaml import YAMLError

from ..models.checkpoint import (
    CHECKSUMS_NAME,
    HEATMAP_NAME,
    PART_NAMES,
    PLACEHOLDER,
    TOKENIZER_NAME,
    CheckedPreTrainedModel,
    check_as_saved,
    list_files,
    saved_digests,
    sha256_of,
)
from ..utils.files import FilePath
from ..utils.loading import load_checkpoint
from ..utils.text import HOME, TOKEN, refusal

LICENCE_FIELDS = ("license", "license_name", "license_link")  # of its front matter

# Weights that transformers would load. Old ones of another form must not stay beside new ones.
# An export of old weights must not stay either.
_OLD_WEIGHTS = (
    "model.safetensors",
    "model-?????-of-?????.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model-*.bin",
    "pytorch_model.bin.index.json",
    "onnx/*",
)
_ONNX_SECTION = """

## ONNX

`onnx/` has the same weights for ONNX Runtime, without torch. In a copy of this repository, run
`pip install onnxruntime tokenizers numpy` and `python onnx/predictor.py "The text."`.
"""


@dataclass(frozen=True)
class Push:
    """What was put on the Hub.

    Attributes:
        repo_id: The repository, `OWNER/NAME`.
        url: Its address.
        commit: The SHA of the commit; None if nothing was sent.
        files: The sizes of the files in bytes, by name.
    """

    repo_id: str
    url: str
    commit: str | None
    files: dict[str, int] = field(repr=False)


def push(
    checkpoint: FilePath,
    repo_id: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    page: str | None = None,
    about: Mapping[str, str | None] | None = None,
    token: str | None = None,
) -> Push:
    """Check a checkpoint and put the files that its `SHA256SUMS` lists on the Hub, with its card.

    In the card the name of the repository replaces the placeholder.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its README.md.
        repo_id: The repository, `OWNER/NAME`; created if it does not exist.
        private: Make the repository private; an existing one must be private already.
        dry_run: Check all that needs no network, and send nothing.
        page: HTML that holds the checkpoint; it goes up instead, as a static Space.
        about: `license` and `language` of the published card, needed if the card names none; ""
            for neither.
        token: The token for the Hub; by default the token of this machine.

    Raises ValueError for what `check_publishable` refuses, and OSError for a missing file and for
    what the Hub refuses.
    """
    validate_repo_id(repo_id)
    folder, about = Path(checkpoint), about or {}
    names = check_publishable(folder, about)
    repo_type, commit = "space" if page else "model", None
    api = HfApi(token=token)
    if not dry_run:
        repo_id = _created(api, repo_id, repo_type, private)
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch)
        card = ModelCard.load(folder / REPOCARD_NAME)
        vars(card.data).update({name: value for name, value in about.items() if value})
        if page:
            _stage_page(staged, page, card, repo_id)
        else:
            _stage_checkpoint(staged, folder, names, card, repo_id)
        if not dry_run:
            with reraise_naming(repo_id):
                commit = api.upload_folder(
                    repo_id=repo_id,
                    folder_path=staged,
                    repo_type=repo_type,
                    commit_message="Upload model",
                    delete_patterns=None if page else [*_OLD_WEIGHTS],
                ).oid
        paths = sorted(path for path in staged.rglob("*") if path.is_file())
        files = {path.relative_to(staged).as_posix(): path.stat().st_size for path in paths}
    url = f"{constants.ENDPOINT}/{'spaces/' if page else ''}{repo_id}"
    return Push(repo_id, url, commit, files)


def _stage_checkpoint(
    staged: Path, folder: Path, names: Sequence[str], card: ModelCard, repo_id: str
) -> None:
    """Copy the files of a checkpoint to a folder, with the changed card."""
    for name in (CHECKSUMS_NAME, *names):
        (staged / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / name, staged / name)
    if {*EXPORTED}.intersection(names) and _ONNX_SECTION not in card.content:
        card.content += _ONNX_SECTION
    text = str(card).replace(PLACEHOLDER, repo_id)
    (staged / REPOCARD_NAME).write_text(text, encoding="utf-8")
    list_files(staged, [REPOCARD_NAME])


def _stage_page(staged: Path, page: str, card: ModelCard, repo_id: str) -> None:
    """Write a static Space to a folder: a page, and a README.md with the licence of the card."""
    licence = {field: card.data.get(field) for field in LICENCE_FIELDS}
    front = SpaceCardData(sdk="static", title=repo_id.rpartition("/")[2], **licence).to_yaml()
    text = f"---\n{front}\n---\n\nA model in one HTML file: the browser reads the texts.\n"
    (staged / REPOCARD_NAME).write_text(text, encoding="utf-8")
    (staged / "index.html").write_text(page, encoding="utf-8")


def _created(api: HfApi, repo_id: str, repo_type: str, private: bool) -> str:
    """Create `OWNER/NAME`, or `NAME` of the user's own, unless it exists; return its full name."""
    sdk = "static" if repo_type == "space" else None
    options: dict[str, Any] = {"repo_type": repo_type, "private": private or None}
    with reraise_naming(repo_id):
        repo_id = api.create_repo(repo_id, exist_ok=True, space_sdk=sdk, **options).repo_id
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
        cause = error.__cause__ or error  # of a file that could not be sent
        reason = TOKEN.sub("[token]", " ".join(str(cause).split())).rstrip(".")
        way_out = "check its name and your right to write there, log in with `hf auth login`"
        # The traceback of the original would show the request with its token.
        raise refusal(
            f"cannot push to {repo_id}: {reason}", f"{way_out}, and push again", OSError
        ) from None


# ---- what is not fit to be public in a checkpoint ------------------------------------------------


# What an export for ONNX Runtime adds to a checkpoint.
PREDICTOR = "onnx/predictor.py"
EXPORTED = (
    "onnx/config.json",
    "onnx/export.json",
    "onnx/model.onnx",
    PREDICTOR,
    "onnx/tokenizer.json",
    "onnx/tokenizer_config.json",
)
PUBLIC_ENDINGS = (".safetensors", ".safetensors.index.json", ".py")  # the code is compared
_REQUIRED = ("license", "language")  # in the front matter of a public card


def check_publishable(folder: Path, about: Mapping[str, str | None]) -> list[str]:
    """Return the names of the files of a checkpoint, all fit to be public.

    `about` holds fields that replace those of the card; a field may be "", for neither.

    Raises ValueError for a tokenizer that is not listed, a listed file that is no part of a model,
    is not as it was saved or lies elsewhere, other code than this package's, a token, or a card
    without a licence or of other weights; OSError for a missing file.
    """
    model, _ = load_checkpoint(folder, strict=True)
    digests = saved_digests(folder)
    if TOKENIZER_NAME not in digests:
        raise refusal(
            f"{CHECKSUMS_NAME} in {folder} lists no {TOKENIZER_NAME}",
            "load both with sase_hf, and save the model, then the tokenizer, with save_pretrained",
        )
    names = sorted({*digests, REPOCARD_NAME})
    known = {*PART_NAMES, *model.json_files, REPOCARD_NAME, HEATMAP_NAME, *EXPORTED}
    for name in names:
        check_public(folder, name)
        if name != REPOCARD_NAME:  # the owner may write in it
            check_as_saved(digests, folder, name, str(folder))
    unknown = [x for x in names if not (x in known or x.endswith(PUBLIC_ENDINGS))]
    other = ", ".join([*unknown, *_other_code(folder, digests, model)])
    if other:
        raise refusal(
            f"{other} in {folder}: not what this version of sase_hf writes",
            "load the checkpoint and save model and tokenizer with save_pretrained",
        )
    _check_card(folder / REPOCARD_NAME, digests, about)
    return names


def check_public(folder: Path, name: str) -> None:
    """Raise ValueError for a file that links out of its folder, or holds a token or a user's path.

    OSError is raised for one that is missing.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise refusal(f"{name} in {folder} is a link to a file elsewhere", "put a copy there")
    if not path.is_file():
        raise refusal(f"there is no {path}", "save the whole checkpoint", FileNotFoundError)
    content = path.read_bytes().decode("latin-1")
    for what, pattern in {"a Hugging Face token": TOKEN, "the path of a user": HOME}.items():
        if pattern.search(content):
            raise refusal(f"{name} in {folder} holds {what}", "take it out")


def _other_code(
    folder: Path, digests: Mapping[str, str], model: CheckedPreTrainedModel
) -> Iterator[str]:
    """Yield what would run other code than this package's, of which alone the model was loaded."""
    files = {path.name: path for path in model.code_files()}
    if PREDICTOR in digests:
        files[PREDICTOR] = Path(__file__).parents[1] / "serving" / "onnx_predictor.py"
    for name in sorted(files.keys() | {name for name in digests if name.endswith(".py")}):
        if name not in files or digests.get(name) != sha256_of(files[name]):
            yield name
    expected: dict[str, dict[str, object]] = {
        CONFIG_NAME: {"auto_map": None, "custom_pipelines": None} | model.code_references(),
        "tokenizer_config.json": {"auto_map": None},
    }
    for name, fields in expected.items():
        content = json.loads((folder / name).read_bytes())
        for key, value in fields.items():
            if content.get(key) != value:
                yield f"{key} in {name}"
    for name, written in model.json_files.items():
        if name not in digests or json.loads((folder / name).read_bytes()) != written:
            yield name


def _check_card(path: Path, digests: Mapping[str, str], about: Mapping[str, str | None]) -> None:
    """Raise ValueError if the front matter of a card lacks a field, or it is of other weights."""
    try:
        card = ModelCard.load(path)
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    missing = [name for name in _REQUIRED if (card.data.get(name) or about.get(name)) is None]
    if missing:
        raise refusal(
            f"the front matter of {path} lacks {' and '.join(missing)}",
            "give --license and --language, such as apache-2.0 and en",
        )
    weights = [digest for name, digest in digests.items() if name.endswith(".safetensors")]
    if not all(digest in card.text for digest in weights):
        raise refusal(
            f"{path} lacks the SHA-256 of the weights beside it, so it may describe others",
            "write it again with sase_hf.hub.write_model_card and the record of these weights",
        )
