"""The files that belong to the weights of a checkpoint, compared with those that were saved.

`SHA256SUMS` holds a line for each file of weights, which `sha256sum -c` reads, and two comments,
which it passes over:

    <SHA-256>  model.safetensors
    # config.json {"attention_function": "entmax15", ...}
    # tokenizer.json <SHA-256>

The first comment has the fields of the config that decide the answer, the second the digest of the
tokenizer. Both are of the content: other programs may write the same content as other bytes. A
checkpoint without a comment is not compared with it.
"""

import hashlib
import json
import os
import reprlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

from transformers import (
    CONFIG_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import CONFIG_NAME

from .checked_config import CheckedConfig

CHECKSUMS_NAME = "SHA256SUMS"  # as `sha256sum *.safetensors` writes it and `sha256sum -c` reads it
TOKENIZER_NAME = "tokenizer.json"
TOKENIZER_CONFIG_NAME = "tokenizer_config.json"
# Files of older tokenizers, which transformers would read beside the others.
LEGACY_TOKENIZER_NAMES = ("special_tokens_map.json", "added_tokens.json")
PART_NAMES = (CONFIG_NAME, TOKENIZER_NAME, TOKENIZER_CONFIG_NAME, *LEGACY_TOKENIZER_NAMES)

# Parts of tokenizer.json that a call of the tokenizer sets, or that name a version.
_STATE_OF_TOKENIZER = ("version", "truncation", "padding")
# Fields of tokenizer_config.json that decide the tokens of a text. The length and the side of
# truncation and padding are choices of the caller.
_DECIDING_TOKENIZER_FIELDS = (
    "added_tokens_decoder",
    "add_prefix_space",
    "bos_token",
    "cls_token",
    "do_lower_case",
    "eos_token",
    "sep_token",
    "split_special_tokens",
    "strip_accents",
    "tokenize_chinese_chars",
    "unk_token",
)
# Fields of every config that decide the answer; most fields of transformers do not.
_DECIDING_FIELDS = ("architectures", "model_type")
_NAMES_OF_LABELS = {"id2label", "label2id"}

Json = Mapping[str, object]  # the object in a JSON file
Difference = tuple[str, object, object]  # the name of a field, its saved value and the current one


@dataclass(frozen=True)
class SavedParts:
    """What `SHA256SUMS` says of a checkpoint; None for a part that it does not name.

    Attributes:
        weights: SHA-256 by the name of the file.
        config: The deciding fields, as in config.json.
        tokenizer: A digest by `tokenizer_digest`.
    """

    weights: Mapping[str, str] = field(default_factory=dict)
    config: Json | None = None
    tokenizer: str | None = None

    @classmethod
    def read(cls, path: Path) -> "SavedParts":
        """Read `SHA256SUMS`; a comment that is not understood is passed over."""
        weights: dict[str, str] = {}
        config = None
        tokenizer = None
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(f"# {CONFIG_NAME} "):
                config = _parsed(line.removeprefix(f"# {CONFIG_NAME} "))
            elif line.startswith(f"# {TOKENIZER_NAME} "):
                tokenizer = line.removeprefix(f"# {TOKENIZER_NAME} ").strip()
            elif not line.startswith("#"):
                weights[line[66:]] = line[:64]  # between them two spaces, or " *"
        return cls(weights, config, tokenizer)

    def write(self, path: Path) -> None:
        """Write `SHA256SUMS`."""
        lines = [f"{digest}  {name}" for name, digest in self.weights.items()]
        if self.config is not None:
            lines.append(f"# {CONFIG_NAME} {json.dumps(self.config, sort_keys=True)}")
        if self.tokenizer is not None:
            lines.append(f"# {TOKENIZER_NAME} {self.tokenizer}")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_checksums(
    folder: str | os.PathLike[str],
    config: Json | None = None,
    tokenizer: str | None = None,
) -> None:
    """Write the SHA-256 of the weights in a folder, and the parts that belong to them."""
    paths = sorted(Path(folder).glob("*.safetensors"))
    weights = {path.name: sha256_of(path) for path in paths}
    SavedParts(weights, config, tokenizer).write(Path(folder, CHECKSUMS_NAME))


def checksum_lines(folder: str | os.PathLike[str]) -> str:
    """Return the lines of `SHA256SUMS` that are of weights; empty if there is no such file."""
    path = Path(folder, CHECKSUMS_NAME)
    if not path.is_file():
        return ""
    weights = SavedParts.read(path).weights
    return "".join(f"{digest}  {name}\n" for name, digest in weights.items())


def record_tokenizer(folder: str | os.PathLike[str]) -> None:
    """Add the tokenizer in a folder to the `SHA256SUMS` of weights that are of no other one."""
    path = Path(folder, CHECKSUMS_NAME)
    if not path.is_file():
        return
    saved = SavedParts.read(path)
    if saved.tokenizer is None:
        SavedParts(saved.weights, saved.config, tokenizer_digest(Path(folder))).write(path)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def deciding_fields(content: Json, config_class: type[CheckedConfig]) -> dict[str, object]:
    """Return the fields of a config.json that decide the answer of a model."""
    declared = config_class.__annotations__.keys() - set(config_class.fields_of_training)
    names = sorted({*declared, *_DECIDING_FIELDS} & content.keys())
    return {name: content[name] for name in names}


def tokenizer_digest(folder: Path) -> str | None:
    """Return the SHA-256 of all in the files of a tokenizer that decides the tokens of a text.

    None: the folder has no tokenizer.json, or one that is not JSON.
    """
    backend = _read_json(folder / TOKENIZER_NAME)
    if backend is None:
        return None
    settings = _read_json(folder / TOKENIZER_CONFIG_NAME) or {}
    content = {
        "backend": {key: backend[key] for key in backend.keys() - {*_STATE_OF_TOKENIZER}},
        "settings": {name: settings.get(name) for name in _DECIDING_TOKENIZER_FIELDS},
        "legacy": [_read_json(folder / name) for name in LEGACY_TOKENIZER_NAMES],
    }
    text = json.dumps(_without_defaults(content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_parts(
    folder: Path, checkpoint: str, saved: SavedParts, config_class: type[CheckedConfig]
) -> None:
    """Raise ValueError if config or tokenizer in the folder of the weights are of other weights."""
    content = _read_json(folder / CONFIG_NAME)
    if content is not None and saved.config is not None:
        _check_config(content, checkpoint, saved.config, config_class)
    digest = tokenizer_digest(folder)
    if digest is not None and saved.tokenizer not in (None, digest):
        raise ValueError(
            f"{TOKENIZER_NAME} or {TOKENIZER_CONFIG_NAME} in {checkpoint} is not of the tokenizer "
            f"that the weights were saved with. {_way_out('the files of the tokenizer')}"
        )


def check_tokenizer_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> None:
    """Raise ValueError for a tokenizer of a folder other than the model's, and of other weights.

    The content is compared once as it is in the folder and once as it is saved now: either may be
    in the form of another version of transformers. A tokenizer without a folder is not compared.
    """
    if tokenizer is None:
        return
    expected = getattr(getattr(model, "base_model", None), "_tokenizer_digest", None)
    source = str(getattr(tokenizer, "name_or_path", ""))
    if expected is None or source == model.name_or_path or not os.path.isdir(source):
        return
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer.save_pretrained(scratch)
        digests = {tokenizer_digest(Path(source)), tokenizer_digest(Path(scratch))}
    if expected not in digests:
        raise ValueError(
            f"the tokenizer of {source} is not the one that the weights of {model.name_or_path} "
            "were saved with; leave it out, or give that of the model"
        )


def _check_config(
    content: Json, checkpoint: str, saved: Json, config_class: type[CheckedConfig]
) -> None:
    """Raise ValueError for the first field of a config.json that is not as it was saved."""
    for name, value, current in _differences(saved, content, config_class):
        raise ValueError(
            f"{CONFIG_NAME} in {checkpoint} has {name}={reprlib.repr(current)}; the weights were "
            f"saved with {reprlib.repr(value)}. {_way_out(CONFIG_NAME)}"
        )


def _differences(
    saved: Json, content: Json, config_class: type[CheckedConfig]
) -> Iterator[Difference]:
    """Yield each field that is not as it was saved.

    A field that one side lacks has the default of the class. Labels that had no names may get some.
    """
    names = saved.keys() | deciding_fields(content, config_class).keys()
    for name in sorted(names - (_NAMES_OF_LABELS - saved.keys())):
        default = getattr(config_class, name, None)
        value = saved.get(name, default)
        current = content.get(name, default)
        if isinstance(value, Mapping) and isinstance(current, Mapping) and "model_type" in value:
            for inner_name, inner_value, inner_current in _inner_differences(value, current):
                yield f"{name}.{inner_name}", inner_value, inner_current
        elif _as_in_json(value) != _as_in_json(current):
            yield name, value, current


def _as_in_json(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _inner_differences(saved: Json, content: Json) -> Iterator[Difference]:
    """Yield the differing fields of the config of an inner model, but those of every config.

    A field that one side lacks has the default that the installed transformers has.
    """
    config_class: type[PreTrainedConfig] | None = None
    with suppress(KeyError):
        config_class = CONFIG_MAPPING[str(content["model_type"])]
    of_every_config = {entry.name for entry in fields(PreTrainedConfig)}
    for name in sorted((saved.keys() | content.keys()) - of_every_config):
        default = getattr(config_class, name, None)
        value = saved.get(name, default)
        current = content.get(name, default)
        if value != current and not name.startswith("_"):
            yield name, value, current


def _way_out(part: str) -> str:
    return (
        f"Restore {part}; after a change on purpose, delete {CHECKSUMS_NAME}, then load model and "
        "tokenizer and save both with save_pretrained"
    )


def _parsed(text: str) -> dict[str, object] | None:
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _read_json(path: Path) -> dict[str, object] | None:
    """Return the object in a JSON file; None if there is none, which its own reader will say."""
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _without_defaults(content: object) -> object:
    """Return JSON without what is null or false, which versions of tokenizers write or leave out.

    A special token is its text, however it is written; a merge of two parts is one text.
    """
    if isinstance(content, Mapping):
        if content.get("__type") == "AddedToken":
            return content.get("content")
        cleaned = {name: _without_defaults(value) for name, value in content.items()}
        return {
            name: value
            for name, value in cleaned.items()
            if value is not None and value is not False
        }
    if isinstance(content, str) or not isinstance(content, Iterable):
        return content
    entries = list(content)
    if len(entries) == 2 and all(isinstance(entry, str) for entry in entries):
        return " ".join(entries)
    return [_without_defaults(entry) for entry in entries]
