"""Configuration of the structured self-attentive sentence encoder and its heads."""

import math
from dataclasses import fields
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from .checked_config import (
    DROPOUT,
    MAX_VOCAB_SIZE,
    RATE,
    SIZE,
    SMOOTHING,
    WEIGHT,
    CheckedConfig,
    described,
    flag,
)

MAX_LAYERS = 100
KERNEL_SIZE = (1, 1024)
# These encoders of transformers accept word vectors, and padding does not change their outputs.
INNER_TYPES = (
    "albert",
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "rembert",
    "roberta",
    "xlm-roberta",
)
# Fields that these models read although their config classes do not declare them.
UNDECLARED_FIELDS = {
    "deberta": {"embedding_size", "talking_head"},
    "deberta-v2": {
        "attention_head_size",
        "conv_act",
        "conv_groups",
        "conv_kernel_size",
        "embedding_size",
        "norm_rel_ebd",
        "position_buckets",
        "share_att_key",
    },
}
# The values of other fields that a field may need (`only_for`).
OF_BILSTM = {"encoder": ("bilstm",)}
OF_RELATION_NETWORK = {"encoder": ("relation_network",)}
OF_SINGLE_LABEL = {"problem_type": (None, "single_label_classification")}
OF_REGRESSION = {"problem_type": ("regression",)}
LABEL_MAPS = {"id2label", "label2id"}  # each is the inverse of the other
# A caller may choose these, a file may not: transformers fetches some of them from the Hub.
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")
Encoder = Literal["bilstm", "cnn", "dilated_cnn", "relation_network", "none", "auto_model"]
Numbers = list[float | int] | tuple[float | int, ...]


@strict
class SelfAttentiveConfig(CheckedConfig):
    r"""Sizes and choices of a self-attentive model; the defaults train well on some 10,000 texts.

    Symbols are those of Lin et al., *A Structured Self-Attentive Sentence Embedding* (ICLR 2017).
    On 10,000 texts, the paper's u = 300, d_a = 350, r = 30 and b = 2000 overfit. The paper's
    attention is `attention_function="softmax"`, `normalize_states=False`, `penalty="frobenius"`,
    `penalty_coef=1.0`. On long texts the hops of this attention are almost uniform and almost
    equal, so the defaults differ.

    Raises:
        StrictDataclassFieldValidationError: If a field has the wrong type or an unknown choice.
        StrictDataclassClassValidationError: If a number is out of range, or a field has no meaning
            together with the others.
        TypeError: If an unknown keyword looks like a misspelt field.
        AttributeError: If a number is given that is derived from others, such as `hidden_size`.
    """

    model_type = "self_attentive"
    keys_to_ignore_at_inference = [
        "penalty",
        "rationale_cost",
        "attentions",
        "hidden_states",
        "sentence_embedding",
        "last_hidden_state",
    ]
    sub_configs = {"encoder_config": AutoConfig}
    eos_token_id = None  # read by transformers when it warns of padding without a mask
    # Fields of transformers; declared again since `strict` skips types that are stored as text.
    architectures: list[str] | None = None
    problem_type: (
        Literal["single_label_classification", "multi_label_classification", "regression"] | None
    ) = None
    id2label: dict[int, str] | dict[str, str] | None = None
    label2id: dict[str, int] | dict[str, str] | None = None
    vocab_size: int = described("Rows of the embedding matrix.", 30000, between=(1, MAX_VOCAB_SIZE))
    max_tokens: int = flag(
        "Tokens of a text that are read, the first ones; in pairs of each.",
        1024,
        between=(1, MAX_VOCAB_SIZE),
    )
    embedding_size: int = flag("d, the width of a word vector.", 100)
    encoder: Encoder = flag(
        "Encoder from T word vectors to T states H; none uses the word vectors as states, "
        "auto_model is an encoder of transformers, such as BERT.",
        "bilstm",
    )
    encoder_config: PreTrainedConfig | dict[str, Any] | None = described(
        "auto_model: its config, or the fields with `model_type` as a dict; "
        "`sase_hf.build_on_encoder` fills it in. The model's `embeddings` are its word vectors.",
        only_for={"encoder": ("auto_model",)},
    )
    lstm_hidden_size: int = flag(
        "bilstm: u, LSTM units per direction; H is 2u wide. `train` and `fit` begin with 64.", 150
    )
    num_lstm_layers: int = flag(
        "bilstm: layers, each reading the states of the one below.",
        1,
        between=(1, MAX_LAYERS),
    )
    lstm_shortcuts: bool = flag(
        "bilstm: let each of 2 or more layers read the word vectors and all states below.",
        default=False,
        only_for={**OF_BILSTM, "num_lstm_layers": range(2, MAX_LAYERS + 1)},
    )
    cnn_kernel_sizes: list[int] | tuple[int, ...] = flag(
        "cnn: widths of the convolutions, in tokens.", (3, 4, 5), between=KERNEL_SIZE
    )
    cnn_num_filters: int = flag("cnn: filters of each width; H holds them side by side.", 100)
    cnn_num_layers: int = flag(
        "cnn: layers, each reading the states of the one below.",
        1,
        between=(1, MAX_LAYERS),
    )
    dilated_cnn_hidden_size: int = flag("dilated_cnn: width of the states.", 300)
    dilated_cnn_kernel_size: int = flag(
        "dilated_cnn: k, the tokens that a layer reads.", 3, between=KERNEL_SIZE
    )
    dilated_cnn_num_layers: int = flag(
        "dilated_cnn: L layers, gaps of 1, 2, 4, ...: a state reads 1 + (k - 1)(2^L - 1) tokens.",
        4,
        between=(1, 12),
    )
    relation_hidden_size: int = flag("relation_network: width of the states.", 64)
    relation_weights: Literal["none", "sigmoid", "softmax"] = flag(
        "relation_network: weights of pairs: 1 (none), a gate each, or a softmax over all.",
        "none",
        only_for=OF_RELATION_NETWORK,
    )
    relation_window: int | None = flag(
        "relation_network: furthest partner of a token, in tokens; all by default.",
        between=SIZE,
        only_for=OF_RELATION_NETWORK,
    )
    pooling: Literal["self_attention", "max", "mean", "last"] = flag(
        "Pooling from the states to the sentence matrix M; max, mean and last make a single row.",
        "self_attention",
        value="last",
        only_for=OF_BILSTM,
    )
    attention_size: int = flag("d_a, the hidden units of the attention MLP (equation 6).", 150)
    num_hops: int = flag("r, the rows of the attention matrix A and of M.", 10)
    attention_function: Literal["softmax", "entmax15", "sparsemax"] = flag(
        "Scores to weights: entmax15 and sparsemax give most tokens exactly 0, the paper's softmax "
        "none.",
        "entmax15",
    )
    # States of an LSTM are small: the scores of plain states stay near 0, their softmax near even.
    normalize_states: bool = flag(
        "Give the attention each state with mean 0 and variance 1: sharper hops.", default=True
    )
    penalty: Literal["frobenius", "cosine"] = flag(
        "Penalty on similar hops: the mean cosine of two hops, from 0 to 1; or frobenius, equation "
        "8, which grows with the square of the hops.",
        "cosine",
    )
    penalty_coef: float | int = flag("Weight of the penalty in the loss.", 0.02, between=WEIGHT)
    rationale_coef: float | int = flag(
        "Weight of the marks of people in the loss of training: minus the log of the share of the "
        "attention on the marked tokens of a row.",
        0.1,
        between=WEIGHT,
    )
    classifier: Literal["mlp", "pruned_mlp"] = flag(
        "One hidden ReLU layer over all of M (mlp), or the pruned layer of Appendix A.", "mlp"
    )
    classifier_hidden_size: int = flag("mlp: b, the hidden units.", 300)
    pruned_row_size: int = flag("pruned_mlp: p, the hidden units that read one row of M.", 30)
    pruned_column_size: int = flag("pruned_mlp: q, the hidden units that read one column of M.", 2)
    linear_part: Literal["none", "words", "words_and_pairs"] = flag(
        "Weights of the words themselves, or of words and pairs of neighbours, whose sum over a "
        "text is added to the logits; on a pretrained encoder, of its mean state, too. train.py "
        "fits them after training; with --calibrate a new model has words_and_pairs, with many "
        "labels words or none.",
        "none",
    )
    matching: Literal["gated", "concat"] = flag(
        "Matching of two sentences: gated (Appendix B), or rows [u; v; |u - v|; u * v].", "gated"
    )
    score_mode: Literal["rows", "flat"] = flag(
        "retrieval: the mean over query rows of the cosine to the most similar document row, or "
        "the cosine of the flat matrices.",
        "rows",
    )
    score_temperature: float | int = flag(
        "retrieval: divisor of the scores in the loss.", 0.05, between=(1e-6, 1e6)
    )
    embedding_dropout: float | int = flag(
        "Dropout of word vectors; 0 for new models of pairs.", 0.3, between=DROPOUT
    )
    classifier_dropout: float | int = flag(
        "Dropout of the classifier, before each layer.", 0.5, between=DROPOUT
    )
    # This field replaces `label_smoothing_factor`, because with that factor `Trainer` computes the
    # loss itself and drops the penalty.
    label_smoothing: float | int = flag(
        "Share of the target probability spread over all labels of a single-label problem.",
        0.0,
        between=SMOOTHING,
        only_for=OF_SINGLE_LABEL,
    )
    answer_error: float | int = flag(
        "Share of texts whose answer set, which --calibrate prepares, may lack the right label.",
        0.05,
        between=(1e-6, 1 - 1e-6),  # a set without error has all labels
        only_for=OF_SINGLE_LABEL,
    )
    answer_threshold: float | int | None = described(
        "The answer set of a text has each label with this probability or more, and the best one. "
        "None: no sets. Training makes an old threshold wrong: set it anew.",
        between=RATE,
        only_for=OF_SINGLE_LABEL,
    )
    class_weights: Numbers | None = described(
        "How many times as much each class counts in the answers as by its share of the training "
        "rows, in id order. The loss subtracts the logarithms from the logits.",
        between=(1e-9, 1e9),
        per_label=True,
        only_for=OF_SINGLE_LABEL,
    )
    label_type: Literal["str", "int", "float", "bool", "matrix"] = described(
        "What the labels were where the model was trained: `sase_hf.TextClassifier` returns them "
        "so.",
        "str",
    )
    text_columns: list[str] | None = described(
        "The columns of the texts where the model was trained, by which it reads a table."
    )
    target_mean: Numbers | None = described(
        "For each target of a regression, what the model adds to its output, after the deviation.",
        between=(-1e30, 1e30),
        per_label=True,
        only_for=OF_REGRESSION,
    )
    target_deviation: Numbers | None = described(
        "For each target of a regression, what the model multiplies its output by, and the loss "
        "divides errors by.",
        between=(1e-30, 1e30),  # float32 holds little more
        per_label=True,
        only_for=OF_REGRESSION,
    )
    freeze_embeddings: bool = flag(
        "Keep the word vectors, and a pretrained encoder, as they are.", default=False
    )
    pad_token_id: int | None = described(
        "The row of the embedding matrix that stays zero.", 0, is_id=True
    )
    # All other weights start Glorot uniform, biases 0.
    initializer_range: float | int = flag(
        "Standard deviation of new word vectors.", 0.1, between=WEIGHT
    )

    def __post_init__(self, **kwargs: Any) -> None:
        if self.encoder_config is not None:
            self.encoder_config = _checked_encoder_config(self.encoder_config)
        if self.label2id and not self.id2label:
            self.id2label = _inverse(self.label2id)
        super().__post_init__(**kwargs)
        if self.architectures is None:
            # Auto classes choose between the three heads by this name and do not accept None.
            self.architectures = ["SelfAttentiveForSequenceClassification"]
        if self.problem_type is None and self.num_labels == 1:
            # The text-classification pipeline would otherwise apply a sigmoid to the output.
            self.problem_type = "regression"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Make a config of a file's fields with the overrides in their place.

        The names of labels replace `num_labels`, and either replaces the names in the file; the
        `num_labels` of the file keeps them.
        """
        names = cls.__annotations__.keys() - {"encoder_config"}
        overrides = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        replaced = {*IMPLEMENTATIONS}
        if LABEL_MAPS & overrides.keys():
            kwargs.pop("num_labels", None)
            replaced |= LABEL_MAPS
        elif kwargs.get("num_labels") not in (None, len(config_dict.get("id2label") or ())):
            replaced |= LABEL_MAPS
        kept = {name: value for name, value in config_dict.items() if name not in replaced}
        return super().from_dict(kept | overrides, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "id2label" and isinstance(value, dict):
            value = _names_by_id(value)
            if value != self.id2label:
                super().__setattr__("label2id", _inverse(value))
        if name == "label2id":
            value = _inverse(_names_by_id(_inverse(value or {})) or self.id2label or {})
        super().__setattr__(name, value)

    @property
    def hidden_size(self) -> int:
        """H, the width of the states and of a row of M."""
        widths = {
            "bilstm": 2 * self.lstm_hidden_size,
            "cnn": len(self.cnn_kernel_sizes) * self.cnn_num_filters,
            "dilated_cnn": self.dilated_cnn_hidden_size,
            "relation_network": self.relation_hidden_size,
            "none": self.embedding_size,
            "auto_model": getattr(self.encoder_config, "hidden_size", 0),
        }
        return widths[self.encoder]

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the encoder; each has an entry in `hidden_states`, after the word vectors.

        `auto_model` counts as one: its last.
        """
        layers = {
            "bilstm": self.num_lstm_layers,
            "cnn": self.cnn_num_layers,
            "dilated_cnn": self.dilated_cnn_num_layers,
        }
        return layers.get(self.encoder, 1)

    @property
    def has_hops(self) -> bool:
        """Whether the pooling weighs tokens, and so has hops, attention and a penalty."""
        return self.pooling == "self_attention"

    @property
    def num_rows(self) -> int:
        """Rows of the sentence matrix M: r, or 1 for the poolings without hops."""
        return self.num_hops if self.has_hops else 1

    @property
    def log_weights(self) -> list[float] | float:
        """What the logit of each class gains by its weight, (L,), or 0."""
        return [*map(math.log, self.class_weights or ())] or 0.0

    @property
    def projection_dim(self) -> int:
        """Width of the flattened sentence matrix, r * H."""
        return self.num_rows * self.hidden_size

    def validate_labels(self) -> None:
        """Refuse ids or names of labels that are missing, double or contradict, for `strict`."""
        names: dict[Any, str] = dict(self.id2label or {})
        if not names or [*names] != [*range(len(names))] or len({*names.values()}) != len(names):
            raise ValueError(
                f"id2label is {names!s:.200}; each id from 0 to {len(names) - 1} must have its own "
                "name"
            )
        if self.label2id != _inverse(names):
            raise ValueError(
                f"label2id is {self.label2id!s:.200}, but id2label is {names!s:.200}; set id2label "
                "whole, and label2id follows"
            )


def _checked_encoder_config(config: PreTrainedConfig | dict[str, Any]) -> PreTrainedConfig:
    """Return the config of a text encoder with only the fields that its model reads.

    Other fields could name files or code, such as `auto_map` and `attn_implementation`. ValueError:
    it is no such encoder.
    """
    written = config.to_dict() if isinstance(config, PreTrainedConfig) else config
    model_type = written.get("model_type")
    if model_type not in INNER_TYPES:
        raise ValueError(
            f"encoder_config has the model_type {model_type!r}; encoder='auto_model' can be one of "
            f"{', '.join(INNER_TYPES)}"
        )
    config_class: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    read = {field.name for field in fields(config_class)} | UNDECLARED_FIELDS.get(model_type, set())
    read -= {"dtype", "transformers_version"}
    return config_class(**{name: written[name] for name in read & written.keys()})


def _names_by_id(id2label: dict[Any, str]) -> dict[int, str]:
    """Return the names of labels in the order of their ids, which are text in JSON."""
    return dict(sorted((int(index), name) for index, name in id2label.items()))


def _inverse(labels: dict[Any, Any]) -> dict[Any, Any]:
    return {value: key for key, value in labels.items()}
