"""Whether a checkpoint is fit to be public, as a stranger would meet it; all without a network."""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..models.self_attentive.configuration_self_attentive import SelfAttentiveConfig
from ..models.self_attentive.modeling_self_attentive import SENTENCE_TRANSFORMER_FILES
from ..utils.loading import load_model
from .public_files import CARD_NAME, CODE, SHARD, handler_files, read_public_files

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
_LOCATION = re.compile(rb'^checkpoint = "[^"\n]*"(?=\r?$)', re.MULTILINE)

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


def prepare(checkpoint: str | Path, repo_id: str, *, handler: bool = False) -> Publication:
    """Choose what of a checkpoint goes up and check it as a stranger would meet it.

    Args:
        checkpoint: A folder that `save_pretrained` wrote, with its tokenizer and its card.
        repo_id: The repository it is for, `OWNER/NAME`; the card's examples load from there.
        handler: Add what serves the model on Inference Endpoints.

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
        (CARD_NAME, "write it with sase_hf.hub.card.write_model_card"),
    ):
        if needed not in files:
            raise FileNotFoundError(f"there is no {needed} in {checkpoint}; {way_out}")
    _check_code(files)
    _check_weight_files(files)
    _check_card(files[CARD_NAME].decode())
    with tempfile.TemporaryDirectory() as copy:
        # Not the folder: what was read is what is checked, and what is checked is what is sent.
        for name, content in files.items():
            Path(copy, name).write_bytes(content)
        config = _check_model(copy, str(checkpoint), _json(CONFIG_NAME, files[CONFIG_NAME]))
    is_head = config.architectures != ["SelfAttentiveModel"]
    if is_head:
        check_label_names(config)
    if handler:
        files |= handler_files(folder)
    card = _LOCATION.sub(f'checkpoint = "{repo_id}"'.encode(), files[CARD_NAME])
    return Publication(
        auto_class="AutoModelForSequenceClassification" if is_head else "AutoModel",
        files={**files, CARD_NAME: card},
        left_out=sorted(
            f"{path.name}/" if path.is_dir() else path.name
            for path in folder.iterdir()
            if path.name not in files
        ),
    )


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
    tokenizer = _json(TOKENIZER_CONFIG_FILE, files.get(TOKENIZER_CONFIG_FILE, b"{}"))
    if "auto_map" in tokenizer:
        other.append(f"auto_map in {TOKENIZER_CONFIG_FILE}")
    _refuse_other_code(other)


def _refuse_other_code(other: list[str]) -> None:
    if other:
        raise ValueError(
            f"{', '.join(other)}: not what this version of sase_hf writes, so not what was "
            f"checked. To publish it with this version, {_SAVE_AGAIN}"
        )


def _json(name: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as reason:
        raise ValueError(f"{name} is no JSON ({reason}); {_SAVE_AGAIN}") from None
    if not isinstance(value, dict | list):
        raise ValueError(f"{name} holds a {type(value).__name__}, no object; {_SAVE_AGAIN}")
    return value  # type: ignore[return-value]  # modules.json is a list, and compared as a whole


def _check_weight_files(files: dict[str, bytes]) -> None:
    """Refuse no weights, two sets of them, and parts that are not those of the index."""
    index = SAFE_WEIGHTS_INDEX_NAME
    parts = {name for name in files if SHARD.fullmatch(name)}
    if index not in files and SAFE_WEIGHTS_NAME not in files:
        raise FileNotFoundError(f"there is no {SAFE_WEIGHTS_NAME}; {_SAVE_AGAIN}")
    if SAFE_WEIGHTS_NAME in files and (parts or index in files):
        raise ValueError(
            f"beside {SAFE_WEIGHTS_NAME} lie other weights: {', '.join(sorted({index, *parts}))}. "
            "Delete those that are not the model's"
        )
    named = set(_json(index, files[index])["weight_map"].values()) if index in files else set()
    if named != parts:
        raise ValueError(
            f"{index} names {', '.join(sorted(named))}, which is not what lies beside it; "
            f"{_SAVE_AGAIN}"
        )


def _check_card(card: str) -> None:
    try:
        data = ModelCard(card).data.to_dict()
    except (ValueError, YAMLError) as reason:
        raise ValueError(f"the front matter of {CARD_NAME} cannot be read: {reason}") from None
    missing = [
        f"{name}: {example}" for name, example in ESSENTIAL_FIELDS.items() if not data.get(name)
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


def _check_model(copy: str, shown: str, saved: dict[str, Any]) -> SelfAttentiveConfig:
    """Load the model and its tokenizer, with no code but this package's, and return the config.

    Args:
        copy: The folder to load.
        shown: What errors call it.
        saved: What its config.json holds.
    """
    try:
        model, tokenizer = load_model(copy, exactly=True)
    except (OSError, ValueError) as reason:
        raise ValueError(str(reason).replace(copy, shown)) from reason
    references: dict[str, Any] = model.code_references()
    _refuse_other_code(
        [
            f"{name} in {CONFIG_NAME}"
            for name in ("auto_map", "custom_pipelines")
            if saved.get(name) != references.get(name)
        ]
    )
    config: SelfAttentiveConfig = model.config
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer in {shown} knows {len(tokenizer):,} words, the model "
            f"{config.vocab_size:,}; put the tokenizer there that the model was trained with"
        )
    return config


__all__ = ["Publication", "check_label_names", "prepare"]
