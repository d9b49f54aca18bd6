"""Configuration of the structured self-attentive sentence encoder and its heads."""

import math
import os
from copy import deepcopy
from dataclasses import fields
from typing import Any, Literal, get_args

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from .checked_config import MAX_LAYER_SIZE, MAX_VOCAB_SIZE, CheckedConfig, flag

MAX_KERNEL_SIZE = 1024
MAX_NUM_KERNELS = 100
MAX_INNER_LAYERS = 1000
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
UNDECLARED_FIELDS: dict[str, dict[str, type]] = {
    "deberta": {"embedding_size": int, "talking_head": bool},
    "deberta-v2": {
        "attention_head_size": int,
        "conv_act": str,
        "conv_groups": int,
        "conv_kernel_size": int,
        "embedding_size": int,
        "norm_rel_ebd": str,
        "position_buckets": int,
        "share_att_key": bool,
    },
}
MAX_SIZES = {
    "vocab_size": MAX_VOCAB_SIZE,
    "max_tokens": MAX_VOCAB_SIZE,
    "num_lstm_layers": 100,
    "cnn_num_layers": 100,
    "dilated_cnn_kernel_size": MAX_KERNEL_SIZE,
    "dilated_cnn_num_layers": 20,
}
# Fields with a number for each label: the least and the largest number, and how an error says so.
NUMBERS_PER_LABEL = {
    "class_weights": (0, 1e30, ", 0 or more"),
    "target_mean": (-1e30, 1e30, " from -1e30 to 1e30"),
    "target_deviation": (1e-30, 1e30, " from 1e-30 to 1e30"),  # float32 holds little more
}
# The only problem type for which a field may differ from its default.
PROBLEM_OF_FIELD = {
    "label_smoothing": "single_label_classification",
    "class_weights": "single_label_classification",
    "answer_threshold": "single_label_classification",
    "answer_error": "single_label_classification",
    "target_mean": "regression",
    "target_deviation": "regression",
}
# The encoder without which a field must keep its default.
ENCODER_OF_FIELD = {
    "lstm_shortcuts": "bilstm",
    "relation_weights": "relation_network",
    "relation_window": "relation_network",
    "encoder_config": "auto_model",
}
DERIVED = ("hidden_size", "projection_dim", "num_hidden_layers")
LABEL_MAPS = ("id2label", "label2id")  # each is the inverse of the other
# A caller may choose these, a file may not: transformers fetches some of them from the Hub.
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
Encoder = Literal["bilstm", "cnn", "dilated_cnn", "relation_network", "none", "auto_model"]
Numbers = list[float | int] | tuple[float | int, ...]


@strict
class SelfAttentiveConfig(CheckedConfig):
    r"""Sizes and choices of a self-attentive model; the defaults train well on some 10,000 texts.

    Symbols are those of Lin et al., *A Structured Self-Attentive Sentence Embedding* (ICLR 2017).
    On 10,000 texts, the paper's u = 300, d_a = 350, r = 30 and b = 2000 overfit. The paper's
    attention is `attention_function="softmax"`, `normalize_states=False`, `penalty="frobenius"`,
    `penalty_coef=1.0`. On long texts the hops of this attention are almost uniform and almost
    equal, so the defaults differ. The declaration of each field describes it.

    Raises:
        StrictDataclassFieldValidationError: If a field has the wrong type or an unknown choice.
        StrictDataclassClassValidationError: If a size, a rate or a relation is out of range.
        TypeError: If an unknown keyword looks like a misspelt field.
        ValueError: If a derived number is given that its parts contradict, or `id2label` and
            `label2id` contradict one another.
    """

    model_type = "self_attentive"
    keys_to_ignore_at_inference = [
        "penalty",
        "rationale_cost",
        "attentions",
        "pair_attentions",
        "hidden_states",
        "sentence_embedding",
        "last_hidden_state",
    ]
    fields_of_training = (
        *("penalty", "penalty_coef", "rationale_coef", "score_temperature", "class_weights"),
        *("embedding_dropout", "classifier_dropout", "label_smoothing", "answer_error"),
        *("freeze_embeddings", "initializer_range"),
    )
    attribute_map = {"num_attention_heads": "num_hops"}
    sub_configs = {"encoder_config": AutoConfig}
    eos_token_id = None  # read by transformers when it warns of padding without a mask
    # Fields of transformers; declared again since `strict` skips types that are stored as text.
    problem_type: ProblemType | None = None
    id2label: dict[int, str] | dict[str, str] | None = None
    label2id: dict[str, int] | dict[str, str] | None = None
    # A copy of `label2id` as it was set, to know edits of either map in place; not written.
    _label2id_as_set = None
    vocab_size: int = 30000  # rows of the embedding matrix
    max_tokens: int = flag("Tokens of a text that are read, the first ones; in pairs of each.", 512)
    embedding_size: int = flag("d, the width of a word vector.", 100)
    encoder: Encoder = flag(
        "Encoder from T word vectors to T states H; none uses the word vectors as states, "
        "auto_model is an encoder of transformers, such as BERT.",
        "bilstm",
    )
    # The config of `auto_model`, or its fields with `model_type` as a dict, which
    # `sase_hf.build_on_encoder` fills in. The model's `embeddings` are its word vectors.
    encoder_config: PreTrainedConfig | dict[str, Any] | None = None
    lstm_hidden_size: int = flag("bilstm: u, LSTM units per direction; H is 2u wide.", 150)
    num_lstm_layers: int = flag("bilstm: layers, each reading the states of the one below.", 1)
    lstm_shortcuts: bool = flag(
        "bilstm: let each of 2 or more layers read the word vectors and all states below.",
        default=False,
    )
    cnn_kernel_sizes: list[int] | tuple[int, ...] = flag(
        "cnn: widths of the convolutions, in tokens.", (3, 4, 5)
    )
    cnn_num_filters: int = flag("cnn: filters of each width; H holds them side by side.", 100)
    cnn_num_layers: int = flag("cnn: layers, each reading the states of the one below.", 1)
    dilated_cnn_hidden_size: int = flag("dilated_cnn: width of the states.", 300)
    dilated_cnn_kernel_size: int = flag("dilated_cnn: k, the tokens that a layer reads.", 3)
    dilated_cnn_num_layers: int = flag(
        "dilated_cnn: L layers, gaps of 1, 2, 4, ...: a state reads 1 + (k - 1)(2^L - 1) tokens.", 4
    )
    relation_hidden_size: int = flag("relation_network: width of the states.", 64)
    relation_weights: Literal["none", "sigmoid", "softmax"] = flag(
        "relation_network: weights of pairs: 1 (none), a gate each, or a softmax over all.", "none"
    )
    relation_window: int | None = flag(
        "relation_network: furthest partner of a token, in tokens; all by default."
    )
    pooling: Literal["self_attention", "max", "mean", "last"] = flag(
        "Pooling from the states to the sentence matrix M; max, mean and last make a single row.",
        "self_attention",
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
    penalty: Literal["frobenius", "cosine", "kl"] = flag(
        "Penalty on similar hops: the mean cosine of two hops, from 0 to 1; frobenius, equation 8, "
        "which grows with the square of the hops; or kl, the mean divergence, with softmax only.",
        "cosine",
    )
    penalty_coef: float | int = flag("Weight of the penalty in the loss.", 0.02)
    rationale_coef: float | int = flag(
        "Weight of the marks of people in the loss of training: minus the log of the share of the "
        "attention on the marked tokens of a row.",
        0.1,
    )
    classifier: Literal["mlp", "pruned_mlp"] = flag(
        "One hidden ReLU layer over all of M (mlp), or the pruned layer of Appendix A.", "mlp"
    )
    classifier_hidden_size: int = flag("mlp: b, the hidden units.", 300)
    pruned_row_size: int = flag("pruned_mlp: p, the hidden units that read one row of M.", 30)
    pruned_column_size: int = flag("pruned_mlp: q, the hidden units that read one column of M.", 2)
    linear_part: Literal["none", "words", "words_and_pairs"] = flag(
        "Weights of the words themselves, or of words and pairs of neighbours, whose sum over a "
        "text is added to the logits. train.py fits them after training; with --calibrate a new "
        "model has words_and_pairs, with many labels words or none, on a pretrained encoder none.",
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
    score_temperature: float | int = flag("retrieval: divisor of the scores in the loss.", 0.05)
    embedding_dropout: float | int = flag(
        "Dropout of word vectors; 0 for new models of pairs.", 0.3
    )
    classifier_dropout: float | int = flag("Dropout of the classifier, before each layer.", 0.5)
    # This field replaces `label_smoothing_factor`, because with that factor `Trainer` computes the
    # loss itself and drops the penalty.
    label_smoothing: float | int = flag(
        "Share of the target probability spread over all labels of a single-label problem.", 0.0
    )
    answer_error: float | int = flag(
        "Share of texts whose answer set, which --calibrate prepares, may lack the right label.",
        0.05,
    )
    # The answer set of a text has each label with this probability or more, and the best one; a
    # single-label problem only. None: no sets. Training makes an old threshold wrong: set it anew.
    answer_threshold: float | int | None = None
    # The weight of each class in the task loss, in id order; single-label problems only.
    class_weights: Numbers | None = None
    # What the labels were where the model was trained: `sase_hf.TextClassifier` returns them so.
    label_type: Literal["str", "int", "float", "bool"] = "str"
    # For each target of a regression, the model multiplies its output by the deviation and adds the
    # mean; the loss divides errors by the deviation.
    target_mean: Numbers | None = None
    target_deviation: Numbers | None = None
    freeze_embeddings: bool = flag("Keep the word vectors as they are.", default=False)
    pad_token_id: int | None = 0  # the row of the embedding matrix that stays zero
    # All other weights start Glorot uniform, biases 0.
    initializer_range: float | int = flag("Standard deviation of new word vectors.", 0.1)

    def __post_init__(self, **kwargs: Any) -> None:
        if self.encoder_config is not None:
            self.encoder_config = _checked_encoder_config(self.encoder_config)
        for name, labels in _both_label_maps(self.id2label, self.label2id).items():
            setattr(self, name, labels)
        super().__post_init__(**kwargs)
        if self.architectures is None:
            # Auto classes choose between the three heads by this name and do not accept None.
            self.architectures = ["SelfAttentiveForSequenceClassification"]
        self._name_problem_of_one_output()

    def _name_problem_of_one_output(self) -> None:
        if self.problem_type is None and self.num_labels == 1:
            # The text-classification pipeline would otherwise apply a sigmoid to the output.
            self.problem_type = "regression"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Make a config of a file's fields and overrides; overridden derived numbers come last.

        The overrides are checked together, when all are set: also `num_labels`, which counts only
        without names of labels.
        """
        known_poolings = get_args(cls.__annotations__["pooling"])
        pooling = config_dict.get("pooling", cls.pooling)
        if pooling not in known_poolings:
            raise ValueError(
                f"pooling is {pooling!r}, but this version knows {', '.join(known_poolings)}; "
                "train anew with one of these, or load the model with the version that wrote it"
            )
        config_dict = {k: v for k, v in config_dict.items() if k not in IMPLEMENTATIONS}
        # transformers would check it against the fields of the file, before the other overrides.
        num_labels = kwargs.pop("num_labels", None)
        label_maps = _both_label_maps(kwargs.pop("id2label", None), kwargs.pop("label2id", None))
        for name, labels in label_maps.items():
            if labels is not None:
                kwargs[name] = labels
        for name in DERIVED:
            if name in kwargs:
                kwargs[name] = kwargs.pop(name)
        loaded = super().from_dict(config_dict, **kwargs)
        config = loaded[0] if isinstance(loaded, tuple) else loaded
        if num_labels is not None and label_maps["id2label"] is None:
            config.num_labels = num_labels
        config._name_problem_of_one_output()
        config.validate()
        return loaded

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike[str]) -> "SelfAttentiveConfig":
        """Make a config of a file, as `from_pretrained` does."""
        return cls.from_dict(cls._dict_from_json_file(json_file))

    def __setattr__(self, name: str, value: object) -> None:
        # A derived number is accepted only if it is right.
        if name in ("cnn_kernel_sizes", *NUMBERS_PER_LABEL) and isinstance(value, list):
            value = tuple(value)  # JSON has only lists
        if name in LABEL_MAPS:
            self._set_label_map(name, value)
        elif name not in DERIVED:
            super().__setattr__(name, value)
        elif value is not None and value != getattr(self, name):
            raise ValueError(
                f"{name} is {value}, but it is derived from the sizes of the encoder: "
                f"{getattr(self, name)}. Leave {name} out"
            )

    def _set_label_map(self, name: str, labels: object) -> None:
        """Set `id2label` or `label2id`; once the config has both, the other one follows."""
        maps = {name: labels}
        if isinstance(labels, dict) and self.label2id is not None:
            maps = _both_label_maps(**maps)
        for map_name, map_labels in maps.items():
            super().__setattr__(map_name, map_labels)
        super().__setattr__("_label2id_as_set", deepcopy(self.label2id))

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
    def has_attention(self) -> bool:
        """Whether the pooling weighs tokens, and so has hops, attention and a penalty."""
        return self.pooling == "self_attention"

    @property
    def num_rows(self) -> int:
        """Rows of the sentence matrix M: r, or 1 for the poolings without attention."""
        return self.num_hops if self.has_attention else 1

    @property
    def projection_dim(self) -> int:
        """Width of the flattened sentence matrix, r * H."""
        return self.num_rows * self.hidden_size

    def to_dict(self) -> dict[str, object]:
        """Return every field, with the derived widths for readers that know only those."""
        written: dict[str, object] = super().to_dict()
        written.pop("_label2id_as_set", None)
        widths = {"hidden_size": self.hidden_size, "projection_dim": self.projection_dim}
        return written | widths

    def validate_fields(self) -> None:
        """Refuse sizes, rates and choices that no model can have; `strict` calls this."""
        self._check_encoder()
        self._check_sizes()
        self._check_numbers()
        self._check_labels()
        self._check_fields_of_problem()

    def _check_labels(self) -> None:
        if not self.num_labels:
            raise ValueError(f"num_labels is {self.num_labels}; give 1 or more, or id2label")
        names: dict[Any, str] = dict(self.id2label or {})
        has_each_id = sorted(names) == list(range(len(names)))
        if not has_each_id or len(set(names.values())) != len(names):
            raise ValueError(
                f"id2label is {names}; each id from 0 to {len(names) - 1} must have its own name"
            )
        inverse = _inverse(names)
        if self.label2id not in (inverse, self._label2id_as_set):  # edited: which map is right?
            raise ValueError(
                f"label2id is {self.label2id}, but id2label is {names}; set one of them whole, and "
                "the other follows"
            )
        self.label2id = inverse  # `id2label` may have been edited in place

    def _check_fields_of_problem(self) -> None:
        problem_type = self.problem_type or "single_label_classification"
        if problem_type == "single_label_classification" and self.num_labels == 1:
            raise ValueError(
                f"problem_type is {self.problem_type!r}, but there is one label; name two or more, "
                "or set problem_type to 'regression' or 'multi_label_classification'"
            )
        for name, problem_of_field in PROBLEM_OF_FIELD.items():
            value = getattr(self, name)
            default = getattr(SelfAttentiveConfig, name)
            if value and value != default and problem_type != problem_of_field:
                raise ValueError(
                    f"{name} is {value}, but problem_type is {self.problem_type!r}; set it to "
                    f"{default}"
                )

    def _check_sizes(self) -> None:
        hints = {**SelfAttentiveConfig.__annotations__, "hidden_size": int}
        self.check_sizes([name for name, hint in hints.items() if hint is int], MAX_SIZES)
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id is {self.pad_token_id}; it must be None or below "
                f"vocab_size={self.vocab_size}"
            )
        window = self.relation_window
        if window is not None and not 1 <= window <= MAX_LAYER_SIZE:
            raise ValueError(
                f"relation_window is {window}; it must be None or from 1 to {MAX_LAYER_SIZE}"
            )
        sizes = self.cnn_kernel_sizes
        is_count = 1 <= len(sizes) <= MAX_NUM_KERNELS
        if not is_count or not all(1 <= size <= MAX_KERNEL_SIZE for size in sizes):
            raise ValueError(
                f"cnn_kernel_sizes is {list(sizes)!r:.200}; it needs widths from 1 to "
                f"{MAX_KERNEL_SIZE}, at most {MAX_NUM_KERNELS} of them"
            )

    def _check_numbers(self) -> None:
        self.check_rates("embedding_dropout", "classifier_dropout", "answer_error")
        self.check_label_smoothing()
        if self.answer_error == 0:
            raise ValueError("answer_error is 0; it must be above 0: a set without error has all")
        if not 0 <= (self.answer_threshold or 0) <= 1:
            raise ValueError(f"answer_threshold is {self.answer_threshold}; it must be from 0 to 1")
        self.check_weights("penalty_coef", "rationale_coef", "initializer_range")
        if not 0 < self.score_temperature < math.inf:
            raise ValueError(
                f"score_temperature is {self.score_temperature}; it must be a finite number above 0"
            )
        for name, (least, most, form) in NUMBERS_PER_LABEL.items():
            numbers = getattr(self, name)
            if numbers is None:
                continue
            are_in_range = all(least <= number <= most for number in numbers)
            if len(numbers) != self.num_labels or not are_in_range:
                raise ValueError(
                    f"{name} is {list(numbers)}; it must be None or {self.num_labels} finite "
                    f"numbers{form}: one for each label"
                )
        if self.class_weights is not None and not any(self.class_weights):
            raise ValueError("class_weights are all 0; give one above 0, or None")

    def _check_encoder(self) -> None:
        if self.pooling == "last" and self.encoder != "bilstm":
            raise ValueError(
                f"pooling is 'last', but encoder={self.encoder!r} has no last state; choose "
                "another pooling or encoder='bilstm'"
            )
        if self.encoder == "auto_model" and self.encoder_config is None:
            raise ValueError(
                "encoder='auto_model' needs encoder_config, the config of that model; let "
                "sase_hf.build_on_encoder or train.py --encoder_name_or_path make both"
            )
        for name, encoder in ENCODER_OF_FIELD.items():
            is_set = getattr(self, name) != getattr(SelfAttentiveConfig, name)
            if is_set and self.encoder != encoder:
                raise ValueError(f"{name} needs encoder={encoder!r}, not {self.encoder!r}")
        if self.penalty == "kl" and self.attention_function != "softmax":
            raise ValueError(
                f"penalty='kl' needs attention_function='softmax', not "
                f"{self.attention_function!r}, whose weights of 0 have no logarithm"
            )
        if self.lstm_shortcuts and self.num_lstm_layers == 1:
            raise ValueError("lstm_shortcuts needs 2 or more num_lstm_layers, not 1")


def _checked_encoder_config(config: PreTrainedConfig | dict[str, Any]) -> PreTrainedConfig:
    """Return the config of a text encoder with only the fields that its model reads.

    Other fields could name files or code, such as `auto_map` and `attn_implementation`. ValueError:
    it is no such encoder, a number is too large for any machine, or a field has the wrong type.
    """
    written = config.to_dict() if isinstance(config, PreTrainedConfig) else config
    model_type = written.get("model_type")
    if model_type not in INNER_TYPES:
        raise ValueError(
            f"encoder_config has the model_type {model_type!r}; encoder='auto_model' can be one of "
            f"{', '.join(INNER_TYPES)}"
        )
    undeclared = UNDECLARED_FIELDS.get(model_type, {})
    for name in undeclared.keys() & written.keys():
        if type(written[name]) is not undeclared[name]:
            raise ValueError(
                f"encoder_config has {name}={written[name]!r}; it must be a "
                f"{undeclared[name].__name__}"
            )
    config_class: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    declared = {field.name for field in fields(config_class)} - {"dtype", "transformers_version"}
    read_by_model = (declared | undeclared.keys()) & written.keys()
    checked = config_class(**{name: written[name] for name in read_by_model})
    name_of_layers = checked.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    for name, value in vars(checked).items():
        most = MAX_INNER_LAYERS if name == name_of_layers else MAX_VOCAB_SIZE
        if isinstance(value, int | float) and not value <= most:
            raise ValueError(f"encoder_config has {name}={value}; it must be at most {most}")
    return checked


def _both_label_maps(id2label: object = None, label2id: object = None) -> dict[str, object]:
    """Return both maps with numbers as ids; a missing map is the inverse, names in order of ids.

    JSON has ids that are text, as have some checkpoints of transformers ({"LABEL_0": "0"}).
    ValueError: the maps contradict one another.
    """
    if isinstance(id2label, dict):
        id2label = {int(index): name for index, name in id2label.items()}
        label2id = label2id or _inverse(id2label)
    if isinstance(label2id, dict):
        label2id = {name: int(index) for name, index in label2id.items()}
        id2label = id2label or dict(sorted(_inverse(label2id).items()))
    if isinstance(id2label, dict) and label2id != _inverse(id2label):
        raise ValueError(f"label2id is {label2id}, but id2label is {id2label}; leave one out")
    return {"id2label": id2label, "label2id": label2id}


def _inverse(labels: dict[Any, Any]) -> dict[Any, Any]:
    return {value: key for key, value in labels.items()}
