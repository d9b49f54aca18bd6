"""Trained checkpoints: one way in for all that shows or measures attention, or embeds texts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    TokenizersBackend,
    pipeline,
)

from ..models.self_attentive.configuration_self_attentive import SelfAttentiveConfig
from ..models.self_attentive.modeling_self_attentive import (
    SelfAttentiveModel,
    SelfAttentivePreTrainedModel,
)
from ..models.self_attentive.pipeline_self_attentive import TASK, SelfAttentionPipeline

# What the Hub allows: NAME, or OWNER/NAME.
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def load_checkpoint(checkpoint: str) -> tuple[SelfAttentivePreTrainedModel, TokenizersBackend]:
    """Load a trained head that attends, and its tokenizer; code in the checkpoint is not run.

    Args:
        checkpoint: A folder or a name on the Hub.

    Returns:
        The model, in evaluation mode and single precision, and the tokenizer.

    Raises:
        ValueError: If it is another kind of model or has no attention, or weights are missing or
            are no finite numbers.
        OSError: If there is no such checkpoint, or it cannot be read.
    """
    return _load_checked(checkpoint, must_attend=True)


def load_model(
    checkpoint: str, *, exactly: bool = False
) -> tuple[SelfAttentivePreTrainedModel, TokenizersBackend]:
    """Load any trained model, an encoder alone or a head; code in the checkpoint is not run.

    Args:
        checkpoint: A folder or a name on the Hub.
        exactly: Refuse also weights that are none of the model's.

    Returns:
        As `load_checkpoint` does.

    Raises:
        ValueError: If it is another kind of model, or weights are missing, are no finite numbers
            or, where that matters, are none of the model's.
        OSError: If there is no such checkpoint, or it cannot be read.
    """
    return _load_checked(checkpoint, must_attend=False, exactly=exactly)


def _load_checked(
    checkpoint: str, *, must_attend: bool, exactly: bool = False
) -> tuple[SelfAttentivePreTrainedModel, TokenizersBackend]:
    config = load_config(checkpoint)
    with loading(checkpoint):
        if must_attend and not config.has_attention:
            raise ValueError(
                f"it has pooling={config.pooling!r}, which attends to nothing; name a checkpoint "
                "with pooling='self_attention' or 'generalized'"
            )
    is_encoder = not must_attend and config.architectures == ["SelfAttentiveModel"]
    auto_class = AutoModel if is_encoder else AutoModelForSequenceClassification
    return _load(auto_class, checkpoint, config, exactly=exactly)


def load_encoder(
    checkpoint: str, revision: str | None = None
) -> tuple[SelfAttentiveModel, TokenizersBackend]:
    """Load the base model of a checkpoint, of a head too, and its tokenizer; its code is not run.

    Args:
        checkpoint: A folder or a name on the Hub.
        revision: Commit, tag or branch on the Hub.

    Returns:
        The model, in evaluation mode and single precision, and the tokenizer.

    Raises:
        ValueError: If it is another kind of model, weights are missing or are no finite numbers, or
            a folder is given a revision.
        OSError: If there is no such checkpoint, or it cannot be read.
    """
    if revision is not None and Path(checkpoint).is_dir():
        raise ValueError(
            f"{checkpoint} is a folder, which has no revision {revision!r}; leave the revision out"
        )
    config = load_config(checkpoint, revision=revision)
    return _load(AutoModel, checkpoint, config, revision=revision)


def load_config(checkpoint: str, **options: Any) -> SelfAttentiveConfig:
    """Load the config of a model of ours; code in the checkpoint is not run.

    Args:
        checkpoint: A folder or a name on the Hub.
        **options: What `from_pretrained` is told of the Hub.

    Raises:
        ValueError: If it is that of another kind of model, or has fields that none can have.
        OSError: If there is no such checkpoint, or it cannot be read.
    """
    _require_folder(checkpoint)
    with loading(checkpoint):
        config = AutoConfig.from_pretrained(checkpoint, **{"trust_remote_code": False, **options})
        if not isinstance(config, SelfAttentiveConfig):
            raise ValueError(f"it holds a {config.model_type!r} model; name a 'self_attentive' one")
    return config


@contextmanager
def refusing() -> Iterator[None]:
    """Raise what a config refuses meanwhile as a ValueError, like all else that is refused."""
    try:
        yield
    except StrictDataclassError as reason:
        raise ValueError(str(reason.__cause__ or reason)) from reason


@contextmanager
def loading(checkpoint: str) -> Iterator[None]:
    """Say which checkpoint could not be loaded meanwhile.

    Raises:
        ValueError: If what it holds cannot be used.
        OSError: If it could not be read.
    """
    try:
        with refusing():
            yield
    except OSError as reason:
        places = "" if Path(checkpoint).is_dir() else ", which is no folder here, from the Hub"
        raise OSError(f"cannot load {checkpoint}{places}: {reason}") from reason
    except (ValueError, RuntimeError, SafetensorError) as reason:
        raise ValueError(f"cannot load {checkpoint}: {reason}") from reason


def _check_weights(checkpoint: str, model: PreTrainedModel, loaded: Mapping[str, Any]) -> None:
    """Raise ValueError unless a checkpoint gave all weights of a model, as finite numbers."""
    if missing := sorted(loaded["missing_keys"]):
        raise ValueError(
            f"{checkpoint} has no weights for {', '.join(missing)}, which would be random. Train "
            "it, or name a trained checkpoint"
        )
    bad = [name for name, part in model.named_parameters() if not part.isfinite().all()]
    if bad:
        raise ValueError(
            f"{checkpoint} has weights that are no finite numbers, in {', '.join(bad)}. Train it "
            "anew, or name another checkpoint"
        )


def _require_folder(checkpoint: str) -> None:
    """Raise if a name can only be that of a folder, and there is no such folder."""
    path = Path(checkpoint)
    is_path = not _HUB_NAME.fullmatch(checkpoint) or path.exists()
    is_beside_others = "/" in checkpoint and path.parent.is_dir()
    if (is_path or is_beside_others) and not path.is_dir():
        raise FileNotFoundError(
            f"there is no folder {checkpoint}; name the folder of a checkpoint, or a model on the "
            "Hub as OWNER/NAME"
        )


def _load(
    auto_class: Any,
    checkpoint: str,
    config: SelfAttentiveConfig,
    *,
    exactly: bool = False,
    **options: Any,
) -> tuple[Any, TokenizersBackend]:
    """Return a model, whose weights are all checked, and its tokenizer."""
    options["trust_remote_code"] = False
    with loading(checkpoint):
        model, loaded = auto_class.from_pretrained(
            checkpoint, config=config, dtype=torch.float32, output_loading_info=True, **options
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, **options)
    _check_weights(checkpoint, model, loaded)
    if exactly and loaded["unexpected_keys"]:
        raise ValueError(
            f"{checkpoint} has weights for {', '.join(sorted(loaded['unexpected_keys'])[:3])}, "
            "which is none of the model's. Load it with sase_hf and save it with save_pretrained"
        )
    return model.eval(), tokenizer


def load_pipeline(checkpoint: str) -> SelfAttentionPipeline:
    """Load the `self-attention` pipeline of a checkpoint, as `load_checkpoint` does.

    Args:
        checkpoint: A folder or a name on the Hub.

    Raises:
        ValueError: As for `load_checkpoint`, or if the tokenizer gives no offsets.
        OSError: As for `load_checkpoint`.
    """
    model, tokenizer = load_checkpoint(checkpoint)
    make_pipeline: Any = pipeline  # its overloads know only the tasks of transformers
    explain: SelfAttentionPipeline = make_pipeline(TASK, model=model, tokenizer=tokenizer)
    return explain


def name_checkpoints(
    checkpoints: Sequence[str], names: Sequence[str] | None = None
) -> dict[str, str]:
    """Return checkpoints by what they are called in pages, figures and records.

    Args:
        checkpoints: Folders or names on the Hub.
        names: One for each; by default the last part of its name, and where two are alike as many
            parts as tell them apart.

    Raises:
        ValueError: If two checkpoints or two names are the same, or there are not as many names as
            checkpoints.
    """
    paths = [Path(checkpoint).resolve() for checkpoint in checkpoints]
    if len(set(paths)) < len(paths):
        raise ValueError(
            f"{', '.join(checkpoints)}: to compare, each checkpoint must be another one"
        )
    if names is None:
        names = [_shortest_name(path, paths) for path in paths]
    if len(set(names)) != len(names) or len(names) != len(checkpoints):
        raise ValueError(
            f"{len(checkpoints)} checkpoints are called {', '.join(names)}; give each a name of "
            "its own with --names"
        )
    return dict(zip(names, checkpoints, strict=True))


def _shortest_name(path: Path, paths: Sequence[Path]) -> str:
    """Return as many of the last parts of a path as no other path ends in."""
    count = 1
    while sum(other.parts[-count:] == path.parts[-count:] for other in paths) > 1:
        count += 1
    return "/".join(path.parts[-count:])


__all__ = [
    "load_checkpoint",
    "load_config",
    "load_encoder",
    "load_model",
    "load_pipeline",
    "loading",
    "name_checkpoints",
    "refusing",
]
