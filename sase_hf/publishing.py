"""What of a checkpoint's folder may be public, and whether it is fit to be; all without a network.

A folder that a run leaves behind holds more than a model: predictions, logs, states of an
optimizer, whatever else was put there. So what goes up is a list of names, and all else stays.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.errors import StrictDataclassError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from .configuration_self_attentive import SelfAttentiveConfig
from .loading import check_weights
from .modeling_self_attentive import SENTENCE_TRANSFORMER_FILES
from .privacy import find_secret

CARD_NAME = "README.md"
CODE = {path.name: path for path in Path(__file__).parent.glob("*_self_attentive.py")}
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
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")

# By these the Hub files a model and tells readers what they may do with it. Data sets and results
# are not among them: a model of local data has none to name, and the card says so itself.
ESSENTIAL_FIELDS = {
    "license": "apache-2.0",
    "language": "en",
    "library_name": "transformers",
    "pipeline_tag": "text-classification",
}
_PLACEHOLDER = "more information needed"
_UNNAMED_LABEL = re.compile(r"LABEL_\d+")
# The line of a card's examples that says where to load from; the template writes it.
_LOCATION = 'checkpoint = "."\n'

_SAVE_AGAIN = "load the checkpoint with sase_hf and save it with save_pretrained"


@dataclass(frozen=True)
class Publication:
    """A checkpoint that is fit to be public.

    Attributes:
        auto_class: The Auto class that loads it.
        files: What goes up: contents by name, read once, so that what was checked is what is sent.
        left_out: What else the folder holds; folders end in a slash.
    """

    auto_class: str
    files: dict[str, bytes]
    left_out: list[str]


def prepare(checkpoint: str | Path, repo_id: str) -> Publication:
    """Choose what of a checkpoint goes up and check it as a stranger would meet it.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its card.
        repo_id: The repository it is for, `OWNER/NAME`; the card's examples load from there.

    Raises:
        FileNotFoundError: If there is no such folder, or it lacks a file.
        ValueError: If the name is none, a text holds what looks like a secret, the code is not that
            of this package, labels have no names, the card lacks a field, or the model does not
            load with finite weights.
    """
    _check_name(repo_id)
    folder = Path(checkpoint)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {checkpoint}; name the folder of a checkpoint")
    files = read_public_files(folder)
    for needed, way_out in (
        (CONFIG_NAME, "name a folder that save_pretrained wrote"),
        (CARD_NAME, "write it with sase_hf.hub.write_model_card"),
    ):
        if needed not in files:
            raise FileNotFoundError(f"there is no {needed} in {checkpoint}; {way_out}")
    _check_code(files)
    _check_shards(files)
    _check_card(files[CARD_NAME].decode("utf-8", errors="replace"))
    config = _check_model(folder)
    is_head = config.architectures != ["SelfAttentiveModel"]
    if is_head:
        check_label_names(config)
    card = files[CARD_NAME].replace(_LOCATION.encode(), _LOCATION.replace(".", repo_id, 1).encode())
    return Publication(
        auto_class="AutoModelForSequenceClassification" if is_head else "AutoModel",
        files={**files, CARD_NAME: card},
        left_out=sorted(
            f"{path.name}/" if path.is_dir() else path.name
            for path in folder.iterdir()
            if path.name not in files
        ),
    )


def read_public_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a folder that may be public, by name.

    Raises:
        ValueError: If one is a link, which may lead anywhere, or holds what looks like a secret.
    """
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name not in PUBLIC_NAMES and not _SHARD.fullmatch(path.name):
            continue
        if path.is_symlink() or not path.is_file():
            raise ValueError(
                f"{path.name} in {folder} is no plain file; a link may lead to what is private. "
                "Put a copy in its place"
            )
        files[path.name] = path.read_bytes()
    for name, content in files.items():
        if name.endswith(".safetensors"):
            continue
        if found := find_secret(content.decode("utf-8", errors="replace")):
            kind, line = found
            raise ValueError(
                f"{name}, line {line}, holds what looks like {kind}. Take it out, and revoke it if "
                "anybody else may have seen the file"
            )
    return files


def check_label_names(config: SelfAttentiveConfig) -> None:
    """Raise ValueError if labels bear the names that stand for none."""
    unnamed = [name for name in (config.id2label or {}).values() if _UNNAMED_LABEL.fullmatch(name)]
    if unnamed:
        raise ValueError(
            f"the labels are called {', '.join(unnamed[:3])}, which tells nobody what they mean. "
            "Name them with --label_names when training, or set model.config.id2label and "
            "label2id and save the model again"
        )


def _check_name(repo_id: str) -> None:
    try:
        validate_repo_id(repo_id)
    except ValueError as reason:
        raise ValueError(f"{repo_id!r} is no name of a repository: {reason}") from None
    if "/" not in repo_id:
        raise ValueError(f"{repo_id!r} does not say whose it is; name the repository OWNER/NAME")


def _check_code(files: dict[str, bytes]) -> None:
    """Refuse code that is not the installed package's.

    The check below runs the package's code, so other code would go up unchecked. It is not put
    right in silence: somebody changed it, or the card's numbers come from another version.
    """
    other = [name for name, path in CODE.items() if files.get(name) != path.read_bytes()]
    for name, content in SENTENCE_TRANSFORMER_FILES.items():
        if name not in files or _json(name, files[name]) != content:
            other.append(name)
    modules = {name.removesuffix(".py") for name in CODE}
    auto_map = _json(CONFIG_NAME, files[CONFIG_NAME]).get("auto_map") or {}
    # The name of a module of another repository has that repository before it.
    if not auto_map or any(str(v).partition(".")[0] not in modules for v in auto_map.values()):
        other.append(f"auto_map in {CONFIG_NAME}")
    if other:
        raise ValueError(
            f"{', '.join(other)}: not what this version of sase_hf writes, so not what was "
            f"checked. To publish it with this version, {_SAVE_AGAIN}"
        )


def _json(name: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as reason:
        raise ValueError(f"{name} is no JSON ({reason}); {_SAVE_AGAIN}") from None


def _check_shards(files: dict[str, bytes]) -> None:
    """Refuse an index that names other files than those that go up, here or anywhere."""
    if SAFE_WEIGHTS_INDEX_NAME not in files:
        return
    named = set(
        _json(SAFE_WEIGHTS_INDEX_NAME, files[SAFE_WEIGHTS_INDEX_NAME])["weight_map"].values()
    )
    if named != {name for name in files if _SHARD.fullmatch(name)}:
        raise ValueError(
            f"{SAFE_WEIGHTS_INDEX_NAME} names {', '.join(sorted(named))}, which is not what lies "
            f"beside it; {_SAVE_AGAIN}"
        )


def _check_card(card: str) -> None:
    try:
        data = ModelCard(card).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"the front matter of {CARD_NAME} cannot be read: {reason}") from None
    missing = [
        f"{name}: {example}" for name, example in ESSENTIAL_FIELDS.items() if name not in data
    ]
    if missing:
        raise ValueError(
            f"{CARD_NAME} lacks what the Hub files a model by. Add between the two lines of "
            f"dashes at its top, with what holds for this model: {', '.join(missing)}"
        )
    if _PLACEHOLDER in card.lower():
        raise ValueError(
            f"{CARD_NAME} still has a placeholder, {_PLACEHOLDER!r}; fill it in or take it out"
        )


def _check_model(folder: Path) -> SelfAttentiveConfig:
    """Load the model and its tokenizer, with no code but this package's, and return the config."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if not isinstance(config, SelfAttentiveConfig):
            raise ValueError(f"it holds a {config.model_type!r} model, not a 'self_attentive' one")
        is_base = config.architectures == ["SelfAttentiveModel"]
        auto_class: Any = AutoModel if is_base else AutoModelForSequenceClassification
        model, loaded = auto_class.from_pretrained(
            folder, config=config, output_loading_info=True, trust_remote_code=False
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, SafetensorError, StrictDataclassError) as reason:
        raise ValueError(f"cannot load {folder}: {reason}") from reason
    check_weights(str(folder), model, sorted(loaded["missing_keys"]))
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer in {folder} knows {len(tokenizer):,} words, the model "
            f"{config.vocab_size:,}; put the tokenizer there that the model was trained with"
        )
    return config


__all__ = ["Publication", "check_label_names", "prepare", "read_public_files"]
