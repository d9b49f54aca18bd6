"""The list of the files of a checkpoint, and the files compared with it.

`SHA256SUMS` has a line for each file of weights, config, tokenizer, code and card, as `sha256sum`
writes it and `sha256sum -c` reads it:

    <SHA-256>  model.safetensors

A comment holds the names of the labels in config.json: these may be changed, as the editor of the
Hub invites to, if no name moves to another label.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

CHECKSUMS_NAME = "SHA256SUMS"
TOKENIZER_NAME = "tokenizer.json"
# With those of older tokenizers, which transformers would read beside the others.
TOKENIZER_NAMES = (
    *(TOKENIZER_NAME, "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json"),
)
PART_NAMES = (CONFIG_NAME, GENERATION_CONFIG_NAME, *TOKENIZER_NAMES)
_LABELS = f"# labels of {CONFIG_NAME}: "
_LABEL_FIELDS = {"id2label", "label2id"}


class SavedFiles(NamedTuple):
    """What `SHA256SUMS` says."""

    digests: dict[str, str]  # SHA-256 by the name of the file
    labels: str  # `id2label` and `label2id` of config.json, if it has them, as JSON

    @classmethod
    def read(cls, folder: Path) -> "SavedFiles":
        """Read the list of a folder; an empty one if there is none."""
        path = folder / CHECKSUMS_NAME
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        digests, labels = {}, "{}"
        for line in text.splitlines():
            if line.startswith(_LABELS):
                labels = line.removeprefix(_LABELS)
            elif not line.startswith("#"):
                digests[line[66:]] = line[:64]  # between them two spaces, or " *"
        return cls(digests, labels)

    def check(self, folder: Path, name: str, checkpoint: str) -> None:
        """Raise ValueError for a file that is not as it was saved, but for names of labels."""
        expected = self.digests.get(name)
        if (folder / name).is_file():
            if sha256_of(folder / name) == expected:
                return
            if name == CONFIG_NAME and self._with_saved_labels(folder / name) == expected:
                return
        raise ValueError(
            f"{name} in {checkpoint} is not as it was saved: its SHA-256 is not in "
            f"{CHECKSUMS_NAME}. Download it again (in a clone, with `git lfs pull`); after a "
            f"change on purpose, delete {CHECKSUMS_NAME}, then load model and tokenizer and save "
            "both with save_pretrained"
        )

    def _with_saved_labels(self, path: Path) -> str | None:
        """Return the SHA-256 of config.json with the saved names of the labels.

        None if a name has moved to another label, or would follow from `label2id` alone.
        """
        config, saved = json.loads(path.read_bytes()), json.loads(self.labels)
        names, old_names = (fields.get("id2label", {}) for fields in (config, saved))
        places = {name: place for place, name in old_names.items()}
        if any(places.get(name, place) != place for place, name in names.items()):
            return None
        if old_names and not names:
            return None
        others = {name: config[name] for name in config.keys() - _LABEL_FIELDS}
        text = json.dumps(others | saved, indent=2, sort_keys=True) + "\n"  # as transformers
        return hashlib.sha256(text.encode()).hexdigest()


def list_files(folder: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Enter files in the `SHA256SUMS` of a folder, if it has one; those that are gone leave it."""
    folder = Path(folder)
    if not (folder / CHECKSUMS_NAME).is_file():
        return
    saved = SavedFiles.read(folder)
    digests, labels = dict(saved.digests), saved.labels
    for name in names:
        digests.pop(name, None)
        if (folder / name).is_file():
            digests[name] = sha256_of(folder / name)
            if name == CONFIG_NAME:
                config = json.loads((folder / name).read_bytes())
                labels = json.dumps({name: config[name] for name in _LABEL_FIELDS & config.keys()})
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    lines.append(f"{_LABELS}{labels}\n")
    (folder / CHECKSUMS_NAME).write_text("".join(lines), encoding="utf-8")


def record_tokenizer(folder: str | os.PathLike[str]) -> None:
    """Enter the tokenizer in the `SHA256SUMS` of a folder, as `list_files` does."""
    list_files(folder, TOKENIZER_NAMES)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
