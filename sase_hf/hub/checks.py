"""Which files of a checkpoint may be public, and whether they are fit for it; without a network."""

import json
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.constants import REPOCARD_NAME
from transformers import TokenizersBackend
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
)
from yaml import YAMLError

from ..evaluation.privacy import TOKEN
from ..models import CHECKSUMS_NAME, FAMILIES, Family
from ..utils.loading import load_checkpoint

HEATMAP_NAME = "heatmap.svg"  # the picture of the card
HANDLER = Path(__file__).parents[1] / "serving" / "endpoint_handler.py"
# What goes up beside the weights and the files of the family; predictions, logs and pickles stay.
PUBLIC_NAMES = (
    *(REPOCARD_NAME, HEATMAP_NAME, CONFIG_NAME, CHECKSUMS_NAME),
    *("tokenizer.json", TOKENIZER_CONFIG_FILE),
)


@dataclass(frozen=True)
class Publication:
    """A checkpoint that is fit to be public."""

    auto_class: str  # the Auto class that loads it
    files: dict[str, Path | bytes]  # what goes up, by name
    left_out: list[str]  # what else the folder holds; names of folders end in a slash


def prepare(
    checkpoint: str | Path, *, handler: bool = False, needs_license: bool = True
) -> Publication:
    """Choose the public files of a checkpoint and check them; the arguments are those of `push`.

    Raises:
        OSError: If there is no such folder, or it lacks a file.
        ValueError: If the model, its labels, tokenizer, code or card is not fit to be public, a
            text holds a token, or the handler cannot serve the model.
    """
    folder = Path(checkpoint)
    weights = weight_files(folder)
    # Loading refuses an index that names files outside the folder, before it reads them.
    model, tokenizer = load_checkpoint(str(checkpoint), strict=True)
    family = FAMILIES[model.config.model_type]
    if handler and model.can_generate():
        raise ValueError(
            f"{checkpoint} translates, and the handler serves labels and embeddings only; leave "
            "--handler out"
        )
    names = [*PUBLIC_NAMES, *family.json_files, *family.files]
    names += [GENERATION_CONFIG_NAME] * model.can_generate()
    names = sorted([*weights, *(name for name in names if (folder / name).is_file())])
    _check_code(folder, model, family)
    _check_card(folder / REPOCARD_NAME, needs_license=needs_license)
    _check_names(checkpoint, model, tokenizer)
    for name in names:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{name} in {folder} is a link to a file elsewhere; put a copy there")
        if TOKEN.search(_text_of(folder / name)):
            raise ValueError(f"{name} in {folder} holds a Hugging Face token; take it out")
    files: dict[str, Path | bytes] = {name: folder / name for name in names}
    if handler:
        lines = metadata.requires("sase_hf") or ()
        needed = [line for line in lines if re.match(r"(torch|transformers)\b(?!-)", line)]
        files |= {"handler.py": HANDLER, "requirements.txt": "\n".join(needed).encode()}
    others = (path for path in folder.iterdir() if path.name not in files)
    left_out = sorted(f"{path.name}/" if path.is_dir() else path.name for path in others)
    return Publication(model._auto_class, files, left_out)


def _check_names(checkpoint: str | Path, model: Any, tokenizer: TokenizersBackend) -> None:
    """Raise ValueError if labels have no names, or the tokenizer is that of a larger model."""
    has_labels = model.is_head and FAMILIES[model.config.model_type].objective == "labels"
    labels = (model.config.id2label or {}).values() if has_labels else ()
    if unnamed := [name for name in labels if re.fullmatch(r"LABEL_\d+", name)]:
        raise ValueError(
            f"the labels are called {', '.join(unnamed[:3])}. Name them with --label_names when "
            "training, or in model.config.id2label and label2id"
        )
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer in {checkpoint} has {len(tokenizer):,} words, the model "
            f"{model.config.vocab_size:,}; replace it with the one that the model was trained with"
        )


def _text_of(path: Path) -> str:
    """Return the text in a public file: of weights the header, which can hold any."""
    if path.suffix != ".safetensors":
        return path.read_text(encoding="utf-8", errors="replace")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return file.read(length).decode(errors="replace")


def weight_files(folder: Path) -> list[str]:
    """Return the names of the safetensors files of a checkpoint, with their index."""
    if (folder / SAFE_WEIGHTS_NAME).is_file():
        return [SAFE_WEIGHTS_NAME]
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if not index.is_file():
        raise FileNotFoundError(
            f"there is no {SAFE_WEIGHTS_NAME} in {folder}; name a folder that save_pretrained wrote"
        )
    shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return [SAFE_WEIGHTS_INDEX_NAME, *sorted(shards)]


def _check_code(folder: Path, model: Any, family: Family) -> None:
    """Raise ValueError if other code than this package's would run; only this was checked."""

    def content(name: str) -> bytes:
        return (folder / name).read_bytes() if (folder / name).is_file() else b"{}"

    other = [name for name, path in family.files.items() if content(name) != path.read_bytes()]
    config, expected = json.loads(content(CONFIG_NAME)), model.code_references()
    keys = ("auto_map", "custom_pipelines")
    other += [f"{key} in {CONFIG_NAME}" for key in keys if config.get(key) != expected.get(key)]
    jsons = family.json_files.items()
    other += [name for name, fields in jsons if json.loads(content(name)) != fields]
    other += [] if (folder / CHECKSUMS_NAME).is_file() else [f"no {CHECKSUMS_NAME}"]
    if "auto_map" in json.loads(content(TOKENIZER_CONFIG_FILE)):
        other.append(f"auto_map in {TOKENIZER_CONFIG_FILE}")
    if other:
        raise ValueError(
            f"{', '.join(other)} in {folder}: not what this version of sase_hf writes. Load the "
            "checkpoint and save it with save_pretrained"
        )


def _check_card(path: Path, *, needs_license: bool) -> None:
    """Raise if there is no card, or its front matter lacks a field."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; write it with sase_hf.hub.write_model_card")
    try:
        data = ModelCard.load(path).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    examples = {"license": "apache-2.0", "language": "en"} if needs_license else {}
    if missing := [f"{name}: {value}" for name, value in examples.items() if not data.get(name)]:
        raise ValueError(f"the front matter of {path} lacks lines such as: {', '.join(missing)}")
