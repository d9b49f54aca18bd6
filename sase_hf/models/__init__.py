"""The model families. Each folder travels: its files are copied beside every checkpoint.

They import torch, transformers, huggingface_hub, the standard library and each other, the last only
as `from .name import Thing`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedConfig, PreTrainedModel

from .self_attentive.configuration_self_attentive import SelfAttentiveConfig
from .self_attentive.modeling_self_attentive import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)


@dataclass(frozen=True)
class Family:
    """The facts of a model family that training, loading and cards read.

    Attributes:
        config: Its config; `config.model_type` is its key in `FAMILIES`.
        base_model: The sentence encoder.
        heads: The head that each `--task` trains.
        summaries: A sentence for the model card, by the name of the class.
        logged_outputs: Outputs of a head, one number per example; their means are logged.
    """

    config: type[PreTrainedConfig]
    base_model: type[PreTrainedModel]
    heads: Mapping[str, type[PreTrainedModel]]
    summaries: Mapping[str, str]
    logged_outputs: tuple[str, ...]

    @property
    def files(self) -> dict[str, Path]:
        """The code that travels with a checkpoint, by file name."""
        folder = Path(__file__).parent / self.config.model_type
        return {path.name: path for path in sorted(folder.glob(f"*_{self.config.model_type}.py"))}


FAMILIES = {
    "self_attentive": Family(
        config=SelfAttentiveConfig,
        base_model=SelfAttentiveModel,
        heads={
            "classification": SelfAttentiveForSequenceClassification,
            "nli": SelfAttentiveForNLI,
        },
        summaries={
            "SelfAttentiveModel": "A sentence encoder.",
            "SelfAttentiveForSequenceClassification": "A classifier of texts.",
            "SelfAttentiveForNLI": "A classifier of sentence pairs: premise and hypothesis.",
        },
        logged_outputs=("penalty",),
    ),
}

__all__ = ["FAMILIES", "Family"]
