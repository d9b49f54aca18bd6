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
from dataclasses import dataclass, field
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase
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
_LABEL_FIELDS = ("id2label", "label2id")


@dataclass(frozen=True)
class SavedFiles:
    """What `SHA256SUMS` says.

    Attributes:
        digests: SHA-256 by the name of the file.
        labels: `id2label` and `label2id` of config.json, if it has them, as JSON.
    """

    digests: dict[str, str] = field(default_factory=dict)
    labels: str = "{}"

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

    @property
    def compared(self) -> list[str]:
        """The names of the listed files that are read beside the weights.

        With those of a tokenizer that could change the listed one.
        """
        of_tokenizer = TOKENIZER_NAMES if TOKENIZER_NAME in self.digests else ()
        return [name for name in PART_NAMES if name in self.digests or name in of_tokenizer]

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

        None if a name has moved to another label, or the file holds no config.
        """
        try:
            config, saved = json.loads(path.read_text(encoding="utf-8")), json.loads(self.labels)
            named = {entry: config.pop(entry) for entry in _LABEL_FIELDS if entry in config}
            places = {name: place for place, name in saved.get("id2label", {}).items()}
            names = named.get("id2label", {}).items()
            is_moved = any(places.get(name, place) != place for place, name in names)
            if is_moved or saved.keys() - named.keys():  # which would follow from the other one
                return None
        except (AttributeError, RecursionError, TypeError, ValueError):
            return None
        text = json.dumps({**config, **saved}, indent=2, sort_keys=True) + "\n"  # as transformers
        return hashlib.sha256(text.encode()).hexdigest()


def list_files(folder: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Enter files in the `SHA256SUMS` of a folder, if it has one; those that are gone leave it."""
    folder = Path(folder)
    if not (folder / CHECKSUMS_NAME).is_file():
        return
    saved = SavedFiles.read(folder)
    labels = saved.labels
    for name in names:
        saved.digests.pop(name, None)
        if not (folder / name).is_file():
            continue
        saved.digests[name] = sha256_of(folder / name)
        if name == CONFIG_NAME:
            config = json.loads((folder / name).read_text(encoding="utf-8"))
            fields = {entry: config[entry] for entry in _LABEL_FIELDS if entry in config}
            labels = json.dumps(fields)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(saved.digests.items())]
    lines.append(f"{_LABELS}{labels}\n")
    (folder / CHECKSUMS_NAME).write_text("".join(lines), encoding="utf-8")


def record_tokenizer(folder: str | os.PathLike[str]) -> None:
    """Enter the tokenizer in the `SHA256SUMS` of a folder, as `list_files` does."""
    list_files(folder, TOKENIZER_NAMES)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_tokenizer_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> None:
    """Raise ValueError for the tokenizer of a folder other than the model's, if it is another one.

    A tokenizer without a folder is not compared, nor is that of a new model.
    """
    source = str(getattr(tokenizer, "name_or_path", ""))
    expected = getattr(getattr(model, "base_model", None), "_tokenizer_digest", None)
    path = Path(source, TOKENIZER_NAME)
    if expected is None or source == model.name_or_path or not path.is_file():
        return
    if sha256_of(path) != expected:
        raise ValueError(
            f"the tokenizer of {source} is not the one that the weights of {model.name_or_path} "
            "were saved with; leave it out, or give that of the model"
        )
