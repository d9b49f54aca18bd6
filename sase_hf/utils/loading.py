"""Checkpoints of any family in `FAMILIES`, loaded and checked; code in them is never run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    Pipeline,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TokenizersBackend,
    pipeline,
)
from transformers.utils import CONFIG_NAME

from ..models import FAMILIES, RETRIEVAL
from ..models.checked_config import CheckedConfig
from ..models.checkpoint import CheckedPreTrainedModel, check_values, is_of_model
from ..models.configuration_self_attentive import IMPLEMENTATIONS
from .files import FilePath
from .text import refusal

# Other ways to compute, which a config may name, can be code that transformers fetches.
EAGER = dict.fromkeys(IMPLEMENTATIONS, "eager")
# Weights that no model here reads, and buffers that old checkpoints hold and newer models compute.
_MAY_BE_UNREAD = re.compile(r"pooler\.|(position_ids|token_type_ids|inv_freq)$")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")  # NAME, or OWNER/NAME


def load_checkpoint(
    checkpoint: FilePath, *, strict: bool = False
) -> tuple[CheckedPreTrainedModel, TokenizersBackend]:
    """Load the model of a folder or a name on the Hub, in evaluation mode and float32.

    ValueError: the checkpoint holds another kind of model, or its weights are refused; with
    `strict`, it has weights that the model lacks. OSError: there is no such checkpoint, or it
    cannot be read.
    """
    config = load_config(checkpoint)
    classes = FAMILIES[config.model_type].classes
    [name, *_] = config.architectures or [""]
    if name not in classes:
        raise refusal(
            f"cannot load {checkpoint}: its architecture is {name!r}", f"use {', '.join(classes)}"
        )
    return load(classes[name], checkpoint, config, strict=strict)


def load_encoder(checkpoint: FilePath) -> tuple[CheckedPreTrainedModel, TokenizersBackend]:
    """Load the base model of a checkpoint, also of a head; raises as `load_checkpoint` does."""
    config = load_config(checkpoint)
    return load(FAMILIES[config.model_type].base_model, checkpoint, config)


def build_on_encoder(
    model_class: Any,
    encoder_name_or_path: str,
    hub_options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> CheckedPreTrainedModel:
    """Build a model on an encoder of transformers, with its pretrained weights.

    A checkpoint of the model holds them whole, and never looks for their source again. The class is
    one of this package, such as `SelfAttentiveForSequenceClassification`; the encoder is a folder
    or a name on the Hub, of a model such as BERT; `hub_options` are those of `from_pretrained`,
    such as `revision`; `fields` are those of the config, such as `num_hops` and `id2label`.

    Raises ValueError if the config does not allow the encoder or a field, or weights are missing;
    OSError if there is no such model, or it cannot be read.
    """
    options = {**(hub_options or {}), "trust_remote_code": False}
    with reraise_naming(encoder_name_or_path):
        inner_config = AutoConfig.from_pretrained(encoder_name_or_path, **options)
        own = {"encoder": "auto_model", "encoder_config": inner_config}
        model_class.config_class(**own)  # refuses an encoder before its weights are fetched
        inner = load_any_model(encoder_name_or_path, **(hub_options or {}))
        vectors = inner.get_input_embeddings()
        vectors_weight = vectors.get_parameter("weight")
        sizes = dict(zip(("vocab_size", "embedding_size"), vectors_weight.shape, strict=True))
        sizes["pad_token_id"] = inner_config.pad_token_id
        model = model_class(model_class.config_class(**{**sizes, **fields, **own}))
        weights = inner.state_dict()
        encoder = model.base_model.token_encoder.model
        _, others = encoder.load_state_dict(weights, strict=False)
        unread = [
            name
            for name in others
            if "pooler." not in name and weights[name].data_ptr() != vectors_weight.data_ptr()
        ]
        if unread:
            raise ValueError(f"its config does not describe {', '.join(unread[:3])}; name another")
        model.base_model.embeddings.load_state_dict(vectors.state_dict())
    return model


def load_any_model(name_or_path: str, **options: Any) -> PreTrainedModel:
    """Load a base model of transformers in evaluation mode and float32; code in it is not run.

    Call it inside `reraise_naming`, as transformers raises errors of any kind for malformed files;
    ValueError: weights are missing, but for those of a pooler, or not finite, or the config counts
    fewer layers than the file holds.
    """
    options |= {"trust_remote_code": False, "use_safetensors": True, **EAGER}
    model, loaded = AutoModel.from_pretrained(
        name_or_path, dtype=torch.float32, output_loading_info=True, **options
    )
    unread = [name for name in loaded["unexpected_keys"] if is_of_model(name, model)]
    for name, weight in model.state_dict().items():
        check_values(name, weight, "its weights")
    faults = {
        "misses weights": [name for name in loaded["missing_keys"] if "pooler." not in name],
        "has layers that its config does not count": [
            name for name in unread if not _MAY_BE_UNREAD.search(name)
        ],
    }
    for fault, names in faults.items():
        if names:
            raise ValueError(f"it {fault}: {', '.join(sorted(names)[:3])}; name another model")
    return model


def retrieval_head(checkpoint: FilePath, config: PreTrainedConfig) -> type[CheckedPreTrainedModel]:
    """Return the class that ranks by the base model of a checkpoint; ValueError if none does."""
    heads = FAMILIES[config.model_type].heads
    if RETRIEVAL not in heads:
        raise refusal(
            f"{checkpoint} holds a {config.model_type} model, which does not rank texts",
            "name a classifier or a ranker",
        )
    return heads[RETRIEVAL]


def load_config(checkpoint: FilePath) -> CheckedConfig:
    """Load the config of a checkpoint; raises as `load_checkpoint` does, or for a refused field."""
    if not (Path(checkpoint, CONFIG_NAME).is_file() or may_be_on_the_hub(str(checkpoint))):
        way_out = "name the folder of a finished training, or a model on the Hub as OWNER/NAME"
        raise FileNotFoundError(f"there is no {CONFIG_NAME} in {checkpoint}; {way_out}")
    with reraise_naming(checkpoint):
        config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
        if config.model_type not in FAMILIES:
            allowed = " or ".join(map(repr, FAMILIES))
            raise ValueError(f"it holds a {config.model_type!r} model; name a {allowed} one")
    return config


def may_be_on_the_hub(name: str) -> bool:
    """Return whether a name can be that of a repository on the Hub, and is not that of a path."""
    is_beside_others = "/" in name and Path(name).parent.is_dir()
    return bool(_HUB_NAME.fullmatch(name)) and not (Path(name).exists() or is_beside_others)


def load_pipeline(checkpoint: FilePath) -> Pipeline:
    """Load the pipeline that returns attention; raises as `load_checkpoint` does."""
    model, tokenizer = load_checkpoint(checkpoint)
    if not (model.is_head and getattr(model.config, "has_attention", True)):
        raise refusal(
            f"cannot load {checkpoint}: it has no labels, or attends to nothing",
            "name a checkpoint of sase_hf train with attention",
        )
    to_device(model)
    return attention_pipeline(model, tokenizer)


def to_device(model: nn.Module, device: str | None = None) -> None:
    """Move a model to a device: by default the GPU or another accelerator, if there is one."""
    fastest = torch.accelerator.current_accelerator(check_available=True)
    nn.Module.to(model, device or fastest or "cpu")


def attention_pipeline(model: CheckedPreTrainedModel, tokenizer: TokenizersBackend) -> Pipeline:
    """Return the pipeline that returns the attention of a model, on the device of the model."""
    task: Any = FAMILIES[model.config.model_type].pipeline_task  # not one of the stock overloads
    return pipeline(task, model=model, tokenizer=tokenizer, device=model.device)


@contextmanager
def reraise_as_value_error() -> Iterator[None]:
    """Raise the errors of a config as ValueError."""
    try:
        yield
    except StrictDataclassError as reason:
        raise ValueError(str(reason.__cause__ or reason)) from reason


@contextmanager
def reraise_naming(checkpoint: FilePath, part: str = "") -> Iterator[None]:
    """Put the name of a checkpoint into the errors of loading it, ValueError or OSError.

    `part` says what of the checkpoint was loaded, such as "the tokenizer of ".
    """
    try:
        with reraise_as_value_error():
            yield
    except Exception as reason:  # of a malformed file: any kind, a bare one by tokenizers
        kind = OSError if isinstance(reason, OSError) else ValueError
        where = "" if Path(checkpoint).exists() else " from the Hub (there is no such folder)"
        why = str(reason) or type(reason).__name__
        raise kind(f"cannot load {part}{checkpoint}{where}: {why}") from reason


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
    """Raise ValueError for a tokenizer of another model, with ids beyond the word vectors."""
    if (last := max(tokenizer.get_vocab().values())) >= vocab_size:
        raise ValueError(
            f"it has ids up to {last:,}, the model {vocab_size:,} word vectors; replace it with "
            "the one that the model was trained with, or after adding words call "
            "model.resize_token_embeddings(len(tokenizer))"
        )


def load(
    model_class: Any,
    checkpoint: FilePath,
    config: PreTrainedConfig,
    *,
    strict: bool = False,
    **options: Any,
) -> tuple[CheckedPreTrainedModel, TokenizersBackend]:
    """Load a class with a config, as `load_checkpoint` does; `options` of `from_pretrained`."""
    with reraise_naming(checkpoint):
        model, info = model_class.from_pretrained(
            checkpoint, config=config, dtype=torch.float32, output_loading_info=True, **options
        )
    with reraise_naming(checkpoint, "the tokenizer of "):
        tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
        check_tokenizer(tokenizer, model.config.vocab_size)
    unread = sorted(info["unexpected_keys"])
    if strict and unread:
        raise ValueError(
            f"{checkpoint} has weights that the model does not: {', '.join(unread[:3])}. Load it "
            "with sase_hf and save it with save_pretrained"
        )
    return model.eval(), tokenizer


def name_checkpoints(checkpoints: Sequence[str]) -> dict[str, str]:
    """Return checkpoints by their names in pages: the last part of their paths, or the last two.

    Two where names would be the same, or "model".
    """
    names: list[str] = []
    for count in (1, 2):
        names = ["/".join(Path(checkpoint).resolve().parts[-count:]) for checkpoint in checkpoints]
        if len({*names}) == len(names) and "model" not in names:
            return dict(zip(names, checkpoints, strict=True))
    raise refusal(f"checkpoints are called {', '.join(names)}", "rename one, or name each once")
