"""What is not fit to be public in a checkpoint: its code, card and picture, and tokens in texts."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..models import CHECKSUMS_NAME, Family
from ..models.checked_files import checksum_lines

# What `visualization.picture.heatmap_svg` draws with: nothing of it runs code or loads a file.
_ELEMENTS = {"svg", "g", "rect", "text"}
_ATTRIBUTES = {
    *("fill", "fill-opacity", "font-family", "font-size", "height", "lengthAdjust"),
    *("text-anchor", "textLength", "transform", "viewBox", "width", "x", "y"),
}
# The Hub writes its ids of licences so: apache-2.0, cc-by-4.0, other.
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_BY_CARD = " with sase_hf.hub.write_model_card"


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


def text_of(path: Path) -> str:
    """Return the text of a public file; for weights, the header, which can contain any text."""
    if path.suffix != ".safetensors":
        return path.read_text(encoding="utf-8", errors="replace")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return file.read(length).decode(errors="replace")


def check_code(folder: Path, model: Any, family: Family) -> None:
    """Raise ValueError if other code than this package's would run; only this was checked."""

    def content(name: str) -> bytes:
        return (folder / name).read_bytes() if (folder / name).is_file() else b"{}"

    other = [name for name, path in family.files.items() if content(name) != path.read_bytes()]
    config, expected = json.loads(content(CONFIG_NAME)), model.code_references()
    keys = ("auto_map", "custom_pipelines")
    other += [f"{key} in {CONFIG_NAME}" for key in keys if config.get(key) != expected.get(key)]
    jsons = model.json_files.items()
    other += [name for name, fields in jsons if json.loads(content(name)) != fields]
    other += [] if (folder / CHECKSUMS_NAME).is_file() else [f"no {CHECKSUMS_NAME}"]
    if "auto_map" in json.loads(content(TOKENIZER_CONFIG_FILE)):
        other.append(f"auto_map in {TOKENIZER_CONFIG_FILE}")
    if other:
        raise ValueError(
            f"{', '.join(other)} in {folder}: not what this version of sase_hf writes. Load the "
            "checkpoint and save it with save_pretrained"
        )


def check_picture(path: Path) -> None:
    """Raise ValueError for a picture with more than a drawing and its words."""
    text = path.read_text(encoding="utf-8", errors="replace")
    other = {mark for mark in ("<!", "<?") if mark in text}
    if not other:
        try:
            elements = list(ElementTree.fromstring(text).iter())
        except ElementTree.ParseError as reason:
            raise ValueError(f"cannot read {path}: {reason}; write it again{_BY_CARD}") from None
        tags = {element.tag.rpartition("}")[2] for element in elements}
        attributes = {name for element in elements for name in element.attrib}
        values = {value for element in elements for value in element.attrib.values()}
        calls = {v for v in values if "(" in v and not v.startswith("translate(")}  # as of url()
        other = (tags - _ELEMENTS) | (attributes - _ATTRIBUTES) | calls
    if other:
        names = ", ".join(sorted(other))
        raise ValueError(f"{path} holds {names}, which no heatmap has; write it again{_BY_CARD}")


def check_card(path: Path, about: Mapping[str, Any]) -> None:
    """Raise if there is no card, its front matter lacks a field, or it is of other weights."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; write it with sase_hf.hub.write_model_card")
    try:
        data = ModelCard.load(path).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"cannot read the front matter of {path}: {reason}") from None
    examples = {"license": "apache-2.0", "language": "en"}
    if missing := [
        f"{n}: {x}" for n, x in examples.items() if (data.get(n) or about.get(n)) is None
    ]:
        fault = f"the front matter of {path} lacks lines such as: {', '.join(missing)}"
        raise ValueError(f"{fault}; add them, or give --license and --language")
    licence = about.get("license") or data.get("license")
    if isinstance(licence, str) and licence and not _LICENCE.fullmatch(licence):
        allowed = "the Hub takes ids such as apache-2.0 or mit, or other"
        if about.get("license"):
            raise ValueError(f"--license is {licence!r}; {allowed}")
        raise ValueError(
            f"the license of {path} is {licence!r}; {allowed}; change it, or give --license"
        )
    if checksum_lines(path.parent).strip() not in path.read_text(encoding="utf-8"):
        raise ValueError(
            f"{path} lacks the SHA-256 of the weights beside it, so it may describe others; write "
            "it again with sase_hf.hub.write_model_card and the record of these weights"
        )
