"""Which files of a checkpoint's folder may be public.

A folder that a run leaves behind holds more than a model: predictions, logs, states of an
optimizer, whatever else was put there. So what goes up is a list of names, and all else stays.
"""

import re
import struct
from importlib import metadata
from pathlib import Path

from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from ..evaluation.privacy import find_secret
from ..models.self_attentive.modeling_self_attentive import SENTENCE_TRANSFORMER_FILES

CARD_NAME = "README.md"
CODE = {path.name: path for path in Path(__file__).parents[1].glob("models/*/*_self_attentive.py")}
HANDLER = Path(__file__).parents[1] / "serving" / "endpoint_handler.py"
# What the handler imports; the server installs the versions that the package asks for.
_HANDLER_NEEDS = ("torch", "transformers")
_TOKENIZER_NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
PUBLIC_NAMES = frozenset(
    (
        CARD_NAME,
        CONFIG_NAME,
        SAFE_WEIGHTS_NAME,
        SAFE_WEIGHTS_INDEX_NAME,
        *_TOKENIZER_NAMES,
        *SENTENCE_TRANSFORMER_FILES,
        *CODE,
    )
)
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")


def read_public_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a folder that may be public, by name.

    Raises:
        ValueError: If one is a link, which may lead anywhere, holds what looks like a secret, or is
            no text in UTF-8, in which one could not be seen.
    """
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name not in PUBLIC_NAMES and not SHARD.fullmatch(path.name):
            continue
        if path.is_symlink() or not path.is_file():
            raise ValueError(
                f"{path.name} in {folder} is no plain file; a link may lead to what is private. "
                "Put a copy in its place"
            )
        files[path.name] = path.read_bytes()
    for name, content in files.items():
        if found := find_secret(_readable(name, content)):
            kind, line = found
            raise ValueError(
                f"{name}, line {line}, holds what looks like {kind}. Take it out, and revoke it if "
                "anybody else may have seen the file"
            )
    return files


def _readable(name: str, content: bytes) -> str:
    """Return the text of a file; of weights, the header, which can hold any."""
    if name.endswith(".safetensors"):
        (length,) = struct.unpack("<Q", content[:8].ljust(8, b"\0"))
        return content[8 : 8 + length].decode(errors="replace")
    try:
        text = content.decode()
    except UnicodeDecodeError as reason:
        raise ValueError(f"{name} is no text in UTF-8 ({reason}); save it as one") from None
    if "\0" in text:
        raise ValueError(f"{name} holds the character NUL, as no text does; save it as UTF-8")
    return text


def handler_files(folder: Path) -> dict[str, bytes]:
    """Return what Inference Endpoints run and install, by name.

    Args:
        folder: That of the checkpoint.

    Raises:
        ValueError: If it holds other files of these names.
    """
    lines = [
        line
        for line in metadata.requires("sase_hf") or ()
        if re.split(r"[^\w-]", line)[0] in _HANDLER_NEEDS
    ]
    files = {
        "handler.py": HANDLER.read_bytes(),
        "requirements.txt": "".join(f"{line}\n" for line in lines).encode(),
    }
    for name, content in files.items():
        path = folder / name
        if path.exists() and (path.is_symlink() or path.read_bytes() != content):
            raise ValueError(
                f"{name} in {folder} is not the one of this version of sase_hf, so not what was "
                "checked. Take it away, or leave --handler out and upload your own by hand"
            )
    return files


__all__ = ["CARD_NAME", "CODE", "PUBLIC_NAMES", "SHARD", "handler_files", "read_public_files"]
