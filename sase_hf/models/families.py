"""The table of the model families, which all other folders read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    Pipeline,
)

from . import relation_network_self_attentive  # noqa: F401 (it adds an encoder)
from .checked_config import CheckedConfig
from .checkpoint import CheckedPreTrainedModel
from .configuration_rnnsearch import RNNSearchConfig
from .configuration_self_attentive import SelfAttentiveConfig
from .modeling_rnnsearch import RNNSearchForConditionalGeneration, RNNSearchModel
from .modeling_self_attentive import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    penalised_loss,
)
from .pipeline_rnnsearch import TASK as TRANSLATION_TASK
from .pipeline_rnnsearch import AlignedTranslationPipeline
from .pipeline_self_attentive import TASK, SelfAttentionPipeline

RETRIEVAL = "retrieval"


@dataclass(frozen=True)
class Family:
    """The facts of a model family that training, loading and cards read."""

    config: type[CheckedConfig]  # `config.model_type` is the key in `FAMILIES`
    base_model: type[CheckedPreTrainedModel]  # the sentence encoder
    objective: Literal["labels", "translation"]  # the task that the heads learn
    # The head that each `--task` trains; that of `RETRIEVAL` learns from pairs without labels.
    heads: Mapping[str, type[CheckedPreTrainedModel]]
    auto_class: (
        type[AutoModelForSequenceClassification] | type[AutoModelForSeq2SeqLM]
    )  # the Auto class that loads the heads
    # Outputs of a head, one number per example, lower is better; their means are logged.
    logged_outputs: tuple[str, ...]
    # The loss of a head, called with logits, labels, the logged outputs by name, and `config`;
    # evaluation computes it from all rows at once. None if a logged output holds it.
    loss: Callable[..., Tensor] | None
    # Fields of a checkpoint's config that flags may change: no weight depends on them.
    changeable_fields: tuple[str, ...]
    pipeline_task: str  # of the pipeline that returns the attention
    pipeline_class: type[Pipeline]
    hub_task: str  # the Hub's name for the task of the heads; `hub/card_FAMILY.md` is the card
    hub_tags: tuple[str, ...]  # of the models on the Hub

    @property
    def classes(self) -> dict[str, type[CheckedPreTrainedModel]]:
        """The base model and the heads, by the name that a checkpoint's config has for them."""
        return {cls.__name__: cls for cls in (self.base_model, *self.heads.values())}


FAMILIES = {
    "self_attentive": Family(
        config=SelfAttentiveConfig,
        base_model=SelfAttentiveModel,
        objective="labels",
        heads={
            "classification": SelfAttentiveForSequenceClassification,
            "nli": SelfAttentiveForNLI,
            RETRIEVAL: SelfAttentiveForRetrieval,
        },
        auto_class=AutoModelForSequenceClassification,
        logged_outputs=("penalty",),
        loss=penalised_loss,
        changeable_fields=(
            "max_tokens",
            "penalty_coef",
            "rationale_coef",
            "score_mode",
            "score_temperature",
            "embedding_dropout",
            "classifier_dropout",
            "label_smoothing",
            "answer_error",
            "freeze_embeddings",
        ),
        pipeline_task=TASK,
        pipeline_class=SelfAttentionPipeline,
        hub_task="text-classification",
        hub_tags=("sentence-embeddings", "self-attention", "sentence-transformers"),
    ),
    "rnnsearch": Family(
        config=RNNSearchConfig,
        base_model=RNNSearchModel,
        objective="translation",
        heads={"translation": RNNSearchForConditionalGeneration},
        auto_class=AutoModelForSeq2SeqLM,
        logged_outputs=("nll",),
        loss=None,
        changeable_fields=("max_tokens", "dropout", "label_smoothing"),
        pipeline_task=TRANSLATION_TASK,
        pipeline_class=AlignedTranslationPipeline,
        hub_task="translation",
        hub_tags=("attention", "rnnsearch"),
    ),
}
