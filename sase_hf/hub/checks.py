"""What is not fit to be public in a checkpoint: other files, code, tokens, its card."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from huggingface_hub import ModelCard
from huggingface_hub.constants import REPOCARD_NAME
from transformers.utils import CONFIG_NAME
from yaml import YAMLError

from ..models.checkpoint import (
    CHECKSUMS_NAME,
    HEATMAP_NAME,
    PART_NAMES,
    TOKENIZER_NAME,
    CheckedPreTrainedModel,
    SavedFiles,
    sha256_of,
)
from ..utils.errors import refusal
from ..utils.loading import load_checkpoint
from ..utils.privacy import HOME, TOKEN

# What an export for ONNX Runtime adds to a checkpoint.
PREDICTOR = "onnx/predictor.py"
EXPORTED = (
    *("onnx/config.json", "onnx/export.json", "onnx/model.onnx", PREDICTOR),
    *("onnx/tokenizer.json", "onnx/tokenizer_config.json"),
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
    model, _ = load_checkpoint(str(folder), strict=True)
    saved = SavedFiles.read(folder)
    if TOKENIZER_NAME not in saved.digests:
        raise refusal(
            f"{CHECKSUMS_NAME} in {folder} lists no {TOKENIZER_NAME}",
            "load both with sase_hf, and save the model, then the tokenizer, with save_pretrained",
        )
    names = sorted({*saved.digests, REPOCARD_NAME})
    known = {*PART_NAMES, *model.json_files, REPOCARD_NAME, HEATMAP_NAME, *EXPORTED}
    for name in names:
        check_public(folder, name)
        if name != REPOCARD_NAME:  # the owner may write in it
            saved.check(folder, name, str(folder))
    unknown = [x for x in names if not (x in known or x.endswith(PUBLIC_ENDINGS))]
    other = ", ".join([*unknown, *_other_code(folder, saved.digests, model)])
    if other:
        raise refusal(
            f"{other} in {folder}: not what this version of sase_hf writes",
            "load the checkpoint and save model and tokenizer with save_pretrained",
        )
    _check_card(folder / REPOCARD_NAME, saved.digests, about)
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
    references = model.code_references()
    expected: dict[str, dict[str, object]] = {
        CONFIG_NAME: {key: references.get(key) for key in ("auto_map", "custom_pipelines")},
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
        data = ModelCard.load(path).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    missing = [name for name in _REQUIRED if (data.get(name) or about.get(name)) is None]
    if missing:
        raise refusal(
            f"the front matter of {path} lacks {' and '.join(missing)}",
            "give --license and --language, such as apache-2.0 and en",
        )
    text = path.read_text(encoding="utf-8")
    weights = [digest for name, digest in digests.items() if name.endswith(".safetensors")]
    if not all(digest in text for digest in weights):
        raise refusal(
            f"{path} lacks the SHA-256 of the weights beside it, so it may describe others",
            "write it again with sase_hf.hub.write_model_card and the record of these weights",
        )
