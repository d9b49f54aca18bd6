"""What is not fit to be public in a checkpoint: its code, card and picture, and tokens in texts."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path

from huggingface_hub import ModelCard
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..models import CHECKSUMS_NAME, Family
from ..models.checked_files import checksum_lines
from ..models.checked_model import CheckedPreTrainedModel
from ..utils.errors import refusal
from ..utils.privacy import TOKEN
from ..visualization.rendering import render

# Fields that the front matter of a public card must have, each with an example.
_REQUIRED_FIELDS = {"license": "apache-2.0", "language": "en"}
# The Hub writes its ids of licences so: apache-2.0, cc-by-4.0, other.
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")

# What `visualization.attention_svg` draws with: nothing of it runs code or loads a file.
_ELEMENTS = {"svg", "g", "rect", "text"}
_ATTRIBUTES = {
    *("class", "fill-opacity", "font-weight", "height", "lengthAdjust", "text-anchor"),
    *("textLength", "transform", "viewBox", "width", "x", "y"),
}

_WRITE_CARD_AGAIN = "write it again with sase_hf.hub.write_model_card"


def weight_files(folder: Path) -> list[str]:
    """Return the names of the safetensors files of a checkpoint, with their index."""
    if (folder / SAFE_WEIGHTS_NAME).is_file():
        return [SAFE_WEIGHTS_NAME]
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if not index.is_file():
        raise refusal(
            f"there is no {SAFE_WEIGHTS_NAME} in {folder}",
            "name a folder that save_pretrained wrote",
            FileNotFoundError,
        )
    shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return [SAFE_WEIGHTS_INDEX_NAME, *sorted(shards)]


def check_code(folder: Path, model: CheckedPreTrainedModel, family: Family) -> None:
    """Raise ValueError if other code than this package's would run; only this was checked."""
    other = []
    for name, path in family.files.items():
        if _content(folder / name) != path.read_bytes():
            other.append(name)
    config = json.loads(_content(folder / CONFIG_NAME))
    references = model.code_references()
    for key in ("auto_map", "custom_pipelines"):
        if config.get(key) != references.get(key):
            other.append(f"{key} in {CONFIG_NAME}")
    for name, fields in model.json_files.items():
        if json.loads(_content(folder / name)) != fields:
            other.append(name)
    if not (folder / CHECKSUMS_NAME).is_file():
        other.append(f"no {CHECKSUMS_NAME}")
    if "auto_map" in json.loads(_content(folder / TOKENIZER_CONFIG_FILE)):
        other.append(f"auto_map in {TOKENIZER_CONFIG_FILE}")
    if other:
        raise refusal(
            f"{', '.join(other)} in {folder}: not what this version of sase_hf writes",
            "load the checkpoint and save it with save_pretrained",
        )


def _content(path: Path) -> bytes:
    """Return the content of a file; that of an empty JSON object if there is none."""
    return path.read_bytes() if path.is_file() else b"{}"


def check_labels(model: CheckedPreTrainedModel, family: Family) -> None:
    """Raise ValueError for a classifier whose labels have the names of transformers' default."""
    if not model.is_head or family.objective != "labels":
        return
    labels = (model.config.id2label or {}).values()
    unnamed = [label for label in labels if re.fullmatch(r"LABEL_\d+", label)]
    if unnamed:
        raise refusal(
            f"the labels are called {', '.join(unnamed[:3])}",
            "name them with --label_names when training, or in model.config.id2label",
        )


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Raise ValueError for a link to a file elsewhere, and for a text that holds a token."""
    for name in names:
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise refusal(f"{name} in {folder} is a link to a file elsewhere", "put a copy there")
        if TOKEN.search(_text_of(path)):
            raise refusal(f"{name} in {folder} holds a Hugging Face token", "take it out")


def _text_of(path: Path) -> str:
    """Return the text of a public file; for weights, the header, which can contain any text."""
    if path.suffix != ".safetensors":
        return path.read_text(encoding="utf-8", errors="replace")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return file.read(length).decode(errors="replace")


def check_picture(path: Path) -> None:
    """Raise ValueError for a picture with more than a drawing and its words."""
    text = path.read_text(encoding="utf-8", errors="replace")
    # Before parsing, which would obey a declaration.
    other = {mark for mark in ("<!", "<?") if mark in text}
    if not other:
        try:
            other = _foreign_parts(ElementTree.fromstring(text))
        except ElementTree.ParseError as reason:
            raise refusal(f"cannot read {path}: {reason}", _WRITE_CARD_AGAIN) from None
    if other:
        names = ", ".join(sorted(other))
        raise refusal(f"{path} holds {names}, which no heatmap has", _WRITE_CARD_AGAIN)


def _foreign_parts(picture: ElementTree.Element) -> set[str]:
    """Return the elements, attributes and values of a picture that no heatmap has."""
    foreign = set()
    for element in picture.iter():
        tag = element.tag.rpartition("}")[2]
        has_own_style = tag == "style" and not len(element) and element.text == render("svg.css")
        if tag not in _ELEMENTS and not has_own_style:
            foreign.add(tag)
        for name, value in element.attrib.items():
            if name not in _ATTRIBUTES:
                foreign.add(name)
            if "(" in value and not value.startswith("translate("):  # such as url()
                foreign.add(value)
    return foreign


def check_card(path: Path, about: Mapping[str, str | None]) -> None:
    """Raise if there is no card, its front matter lacks a field, or it is of other weights.

    `about` holds fields that replace those of the card; a field may be "", for neither.
    """
    if not path.is_file():
        raise refusal(
            f"there is no {path}", "write it with sase_hf.hub.write_model_card", FileNotFoundError
        )
    try:
        data = ModelCard.load(path).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    missing = [
        f"{name}: {example}"
        for name, example in _REQUIRED_FIELDS.items()
        if (data.get(name) or about.get(name)) is None
    ]
    if missing:
        raise refusal(
            f"the front matter of {path} lacks lines such as: {', '.join(missing)}",
            "add them, or give --license and --language",
        )
    _check_licence(path, data.get("license"), about.get("license"))
    if checksum_lines(path.parent).strip() not in path.read_text(encoding="utf-8"):
        raise refusal(
            f"{path} lacks the SHA-256 of the weights beside it, so it may describe others",
            f"{_WRITE_CARD_AGAIN} and the record of these weights",
        )


def _check_licence(path: Path, licence: object, replacement: str | None) -> None:
    """Raise ValueError if the licence of a card, or the one that replaces it, is no id."""
    allowed = "the Hub takes ids such as apache-2.0 or mit, or other"
    if replacement:
        if not _LICENCE.fullmatch(replacement):
            raise refusal(f"--license is {replacement!r}", allowed)
    elif isinstance(licence, str) and licence and not _LICENCE.fullmatch(licence):
        raise refusal(
            f"the license of {path} is {licence!r}", f"{allowed}; change it, or give --license"
        )
