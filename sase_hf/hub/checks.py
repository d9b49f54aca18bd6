"""Which files of a checkpoint may be public, and whether they are fit for it; without a network."""

import json
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..evaluation.privacy import TOKEN
from ..models import FAMILIES
from ..models.self_attentive.modeling_self_attentive import SENTENCE_TRANSFORMER_FILES
from ..utils.loading import load_checkpoint

CARD_NAME = "README.md"
HANDLER = Path(__file__).parents[1] / "serving" / "endpoint_handler.py"
# Beside the weights and the code of the family, all that goes up: a folder that a run leaves holds
# predictions, logs and pickles as well.
PUBLIC_NAMES = (
    CARD_NAME,
    CONFIG_NAME,
    "tokenizer.json",
    TOKENIZER_CONFIG_FILE,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    *SENTENCE_TRANSFORMER_FILES,
)
_SAVE_AGAIN = "load the checkpoint with sase_hf and save it with save_pretrained"


@dataclass(frozen=True)
class Publication:
    """A checkpoint that is fit to be public.

    Attributes:
        auto_class: The Auto class that loads it.
        files: What goes up, by name.
        left_out: What else the folder holds; names of folders end in a slash.
    """

    auto_class: str
    files: dict[str, Path | bytes]
    left_out: list[str]


def prepare(
    checkpoint: str | Path, *, handler: bool = False, needs_license: bool = True
) -> Publication:
    """Choose the public files of a checkpoint and check them.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its card.
        handler: Add what serves the model on Inference Endpoints.
        needs_license: Raise if the card names no licence or no language.

    Raises:
        OSError: If there is no such folder, or it lacks a file.
        ValueError: If the model does not load with all its weights, finite and no others; its code
            is not that of this package; labels have no names; the tokenizer is another model's; the
            card lacks a field; or a text holds a token.
    """
    folder = Path(checkpoint)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {checkpoint}; name the folder of a checkpoint")
    weights = weight_files(folder)
    model, tokenizer = load_checkpoint(str(checkpoint), strict=True)
    code = FAMILIES[model.config.model_type].files
    names = [name for name in (*PUBLIC_NAMES, *code) if (folder / name).is_file()]
    files: dict[str, Path | bytes] = {name: folder / name for name in sorted([*names, *weights])}
    _check_code(folder, model)
    _check_card(folder / CARD_NAME, needs_license=needs_license)
    check_label_names(model)
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer in {checkpoint} has {len(tokenizer):,} words, the model "
            f"{model.config.vocab_size:,}; put the tokenizer there that the model was trained with"
        )
    for name in names:
        if TOKEN.search((folder / name).read_text(encoding="utf-8", errors="replace")):
            raise ValueError(
                f"{name} in {checkpoint} holds a Hugging Face token; take it out, and revoke it if "
                "anybody else may have seen the file"
            )
    if handler:
        files |= _handler_files(folder)
    return Publication(
        auto_class="AutoModelForSequenceClassification" if model.is_head else "AutoModel",
        files=files,
        left_out=sorted(
            f"{path.name}/" if path.is_dir() else path.name
            for path in folder.iterdir()
            if path.name not in files
        ),
    )


def weight_files(folder: Path) -> list[str]:
    """Return the names of the files that hold the weights of a checkpoint, with their index.

    Raises:
        FileNotFoundError: If the folder holds no safetensors weights.
    """
    if (folder / SAFE_WEIGHTS_NAME).is_file():
        return [SAFE_WEIGHTS_NAME]
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if not index.is_file():
        raise FileNotFoundError(
            f"there is no {SAFE_WEIGHTS_NAME} in {folder}; name a folder that save_pretrained wrote"
        )
    shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return [SAFE_WEIGHTS_INDEX_NAME, *sorted(set(shards))]


def check_label_names(model: Any) -> None:
    """Raise ValueError if the labels of a head have transformers' names for unnamed labels."""
    labels = (model.config.id2label or {}).values() if model.is_head else ()
    if unnamed := [name for name in labels if re.fullmatch(r"LABEL_\d+", name)]:
        raise ValueError(
            f"the labels are called {', '.join(unnamed[:3])}. Name them with --label_names when "
            "training, or set model.config.id2label and label2id and save the model again"
        )


def _check_code(folder: Path, model: Any) -> None:
    """Raise ValueError if other code than this package's would run; only this was checked."""
    code = FAMILIES[model.config.model_type].files
    other = [
        name
        for name, path in code.items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != path.read_bytes()
    ]
    other += [
        name
        for name, content in SENTENCE_TRANSFORMER_FILES.items()
        if _read(folder / name) != content
    ]
    saved = _read(folder / CONFIG_NAME)
    other += [
        f"{name} in {CONFIG_NAME}"
        for name in ("auto_map", "custom_pipelines")
        if saved.get(name) != model.code_references().get(name)
    ]
    if "auto_map" in _read(folder / TOKENIZER_CONFIG_FILE):
        other.append(f"auto_map in {TOKENIZER_CONFIG_FILE}")
    if other:
        raise ValueError(
            f"{', '.join(other)} in {folder}: not what this version of sase_hf writes. To publish "
            f"it with this version, {_SAVE_AGAIN}"
        )


def _read(path: Path) -> Any:
    """Return the content of a JSON file; empty if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as reason:
        raise ValueError(f"{path} is not JSON ({reason}); {_SAVE_AGAIN}") from None


def _check_card(path: Path, *, needs_license: bool) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; write it with sase_hf.hub.write_model_card")
    try:
        data = ModelCard.load(path).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    examples = {"license": "apache-2.0", "language": "en"} if needs_license else {}
    if missing := [f"{name}: {value}" for name, value in examples.items() if not data.get(name)]:
        raise ValueError(
            f"{path} lacks {len(missing)} of the fields that readers need. Add lines like these "
            f"between the two lines of dashes at its top: {', '.join(missing)}"
        )


def _handler_files(folder: Path) -> dict[str, Path | bytes]:
    """Return the handler and a requirements.txt with the versions that this package asks for."""
    lines = metadata.requires("sase_hf") or ()
    needed = [line for line in lines if re.match(r"(torch|transformers)\b(?!-)", line)]
    files = {"handler.py": HANDLER.read_bytes(), "requirements.txt": "\n".join(needed).encode()}
    for name, content in files.items():
        if (folder / name).exists() and (folder / name).read_bytes() != content:
            raise ValueError(
                f"{name} in {folder} is not the one of this version of sase_hf. Take it away, or "
                "leave --handler out and upload your own"
            )
    return {**files}


__all__ = ["CARD_NAME", "HANDLER", "Publication", "check_label_names", "prepare", "weight_files"]
