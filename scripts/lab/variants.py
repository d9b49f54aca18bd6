"""Variants of recipes: groups of entries in one file, based on one another and on recipes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sase_hf.utils.cli import EMPTY


def read_variant(address: str | Path) -> dict[str, Any]:
    """Return the entries of FILE#VARIANT, which override those of the file, of texts and lists.

    `base` names a variant of the file, or a recipe by its path from the file's folder, whose
    entries are overridden in turn. An empty entry is None.
    """
    file, _, variant = str(address).partition("#")
    path = Path(file)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    variants = content.pop("variants", {})
    entries = _on_base(path, content, variants)
    if variant:
        entries |= _on_base(path, variants[variant], variants)
    return {name: None if value in EMPTY else value for name, value in entries.items()}


def _on_base(path: Path, own: Any, variants: Mapping[str, Any]) -> dict[str, Any]:
    entries: dict[str, Any] = dict(own or {})
    base = entries.pop("base", None)
    if base in variants:
        return _on_base(path, variants[base], variants) | entries
    return entries if base is None else read_variant(path.parent / base) | entries
