"""The model families. Beside every checkpoint lie the files that its modeling file imports.

They import torch, transformers, huggingface_hub, the standard library and each other, the last only
as `from .name import Thing`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    Pipeline,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.dynamic_module_utils import get_relative_import_files

from .checked_model import CHECKSUMS_NAME
from .configuration_rnnsearch import RNNSearchConfig
from .configuration_self_attentive import SelfAttentiveConfig
from .modeling_rnnsearch import RNNSearchForConditionalGeneration, RNNSearchModel
from .modeling_self_attentive import (
    SENTENCE_TRANSFORMER_FILES,
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    penalised_loss,
    row_scores,
    unit_rows,
)
from .pipeline_rnnsearch import TASK as TRANSLATION_TASK
from .pipeline_rnnsearch import AlignedTranslationPipeline
from .pipeline_self_attentive import TASK, SelfAttentionPipeline

RETRIEVAL = "retrieval"


@dataclass(frozen=True)
class Family:
    """The facts of a model family that training, loading and cards read.

    Attributes:
        config: Its config; `config.model_type` is its key in `FAMILIES`.
        base_model: The sentence encoder.
        objective: What its heads learn: `labels` of texts (scripts/train.py), or `translation`
            (scripts/train_translation.py).
        heads: The head that each `--task` trains; that of `RETRIEVAL` learns from pairs without
            labels (scripts/train_retrieval.py).
        auto_class: The Auto class that loads the heads.
        summaries: A sentence for the model card, by the name of the class.
        logged_outputs: Outputs of a head, one number per example, lower is better; their means are
            logged.
        loss: The loss of a head, called with logits, labels, the logged outputs by name, and
            `config`; evaluation computes it from all rows at once. None if a logged output holds
            it.
        flags: The help of the flag for each field of the config; fields that the tokenizer decides
            have none.
        changeable_fields: Fields of a checkpoint's config that flags may change: no weight depends
            on them.
        json_files: What `save_pretrained` writes beside weights, config and code, by file name.
        pipeline_task: The name for `pipeline` of the one that returns the attention.
        pipeline_class: Its class.
        hub_task: The task of its heads by the Hub's name; its card is `hub/card_FAMILY.md`.
        hub_tags: What the Hub finds its models by.
    """

    config: type[PreTrainedConfig]
    base_model: type[PreTrainedModel]
    objective: Literal["labels", "translation"]
    heads: Mapping[str, type[PreTrainedModel]]
    auto_class: Any
    summaries: Mapping[str, str]
    logged_outputs: tuple[str, ...]
    loss: Callable[..., Tensor] | None
    flags: Mapping[str, str]
    changeable_fields: tuple[str, ...]
    json_files: Mapping[str, Any]
    pipeline_task: str
    pipeline_class: type[Pipeline]
    hub_task: str
    hub_tags: tuple[str, ...]

    @property
    def files(self) -> dict[str, Path]:
        """The code that travels with a checkpoint, by file name."""
        modeling = Path(__file__).with_name(f"modeling_{self.config.model_type}.py")
        paths = sorted(map(Path, {str(modeling), *get_relative_import_files(modeling)}))
        return {path.name: path for path in paths}


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
        summaries={
            "SelfAttentiveModel": "A sentence encoder.",
            "SelfAttentiveForSequenceClassification": "A classifier of texts.",
            "SelfAttentiveForNLI": "A classifier of sentence pairs: premise and hypothesis.",
            "SelfAttentiveForRetrieval": "A ranker of documents for short queries.",
        },
        logged_outputs=("penalty",),
        loss=penalised_loss,
        flags={
            "embedding_size": "Width of a word vector.",
            "encoder": "What turns the word vectors into states; none leaves them as they are.",
            "lstm_hidden_size": "bilstm: LSTM units per direction.",
            "num_lstm_layers": "bilstm: layers.",
            "lstm_shortcuts": "bilstm: let each layer read the word vectors and all layers below.",
            "cnn_kernel_sizes": "cnn: widths of the convolutions in tokens.",
            "cnn_num_filters": "cnn: filters of each width.",
            "cnn_num_layers": "cnn: layers, each reading the states of the one below.",
            "dilated_cnn_hidden_size": "dilated_cnn: width of the states.",
            "dilated_cnn_kernel_size": "dilated_cnn: tokens that a layer reads.",
            "dilated_cnn_num_layers": "dilated_cnn: layers, with gaps of 1, 2, 4, ... tokens.",
            "relation_hidden_size": "relation_network: width of the states.",
            "relation_weights": "relation_network: weights of pairs; those of softmax sum to 1.",
            "relation_window": "relation_network: furthest partner of a token; all by default.",
            "pooling": "What turns the states into the sentence matrix.",
            "attention_size": "Hidden units of the attention MLP.",
            "num_hops": "Rows of the attention matrix.",
            "attention_function": "Scores to weights; entmax15 and sparsemax give most tokens 0.",
            "normalize_states": "Normalise the states that the attention reads: sharper hops.",
            "penalty": "What keeps the hops apart; frobenius is equation 8 of the paper.",
            "penalty_coef": "Weight of the attention penalty in the loss.",
            "classifier": "One hidden layer, or the pruned layer of Appendix A.",
            "classifier_hidden_size": "mlp: hidden units.",
            "pruned_row_size": "pruned_mlp: hidden units that read one row of the sentence matrix.",
            "pruned_column_size": "pruned_mlp: hidden units that read one column of it.",
            "score_mode": "retrieval: compare all rows of two texts, or the flattened matrices.",
            "score_temperature": "retrieval: what the loss divides the scores by.",
            "matching": "How two sentences are compared; gated is that of Appendix B.",
            "embedding_dropout": "Dropout of the word vectors; 0 for new models of pairs.",
            "classifier_dropout": "Dropout of the classifier's input and hidden layer.",
            "label_smoothing": "Share of the target probability that is spread over all labels.",
            "freeze_embeddings": "Keep the word vectors as they are.",
            "initializer_range": "Standard deviation of new word vectors.",
        },
        changeable_fields=(
            "penalty_coef",
            "score_mode",
            "score_temperature",
            "embedding_dropout",
            "classifier_dropout",
            "label_smoothing",
            "freeze_embeddings",
        ),
        json_files=SENTENCE_TRANSFORMER_FILES,
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
        summaries={
            "RNNSearchModel": "A sentence encoder.",
            "RNNSearchForConditionalGeneration": "A translation model.",
        },
        logged_outputs=("nll",),
        loss=None,
        flags={
            "embedding_size": "Width of a word vector.",
            "hidden_size": "Units of the encoder per direction, and of the decoder.",
            "attention_size": "Hidden units of the alignment model.",
            "maxout_size": "Maxout units before the output layer.",
            "has_attention": "Align target words to source words; false is RNNencdec.",
            "dropout": "Dropout of word vectors, annotations and maxout layer.",
            "label_smoothing": "Share of the target probability that is spread over all words.",
            "initializer_range": "Standard deviation of new weights.",
        },
        changeable_fields=("dropout", "label_smoothing"),
        json_files={},
        pipeline_task=TRANSLATION_TASK,
        pipeline_class=AlignedTranslationPipeline,
        hub_task="translation",
        hub_tags=("attention", "rnnsearch"),
    ),
}

__all__ = [
    "CHECKSUMS_NAME",
    "FAMILIES",
    "RETRIEVAL",
    "TRANSLATION_TASK",
    "Family",
    "row_scores",
    "unit_rows",
]
