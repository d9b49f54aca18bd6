"""Configuration of the structured self-attentive sentence encoder and its heads."""

import difflib
import math
from dataclasses import fields
from numbers import Integral
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

MAX_LAYER_SIZE = 2**20
MAX_KERNEL_SIZE, MAX_NUM_KERNELS = 1024, 100
MAX_NUM_LABELS = 2**16  # without names
MAX_INNER_LAYERS = 1000
# Encoders of transformers that read word vectors, and nothing of the padding beside them.
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
MAX_SIZES = {
    "vocab_size": 2**27,
    "num_lstm_layers": 100,
    "cnn_num_layers": 100,
    "dilated_cnn_kernel_size": MAX_KERNEL_SIZE,
    "dilated_cnn_num_layers": 20,
}
# What holds a number for each label: the least and the largest one, and what an error says of it.
NUMBERS_PER_LABEL = {
    "class_weights": (0, 1e30, ", 0 or more"),
    "target_mean": (-1e30, 1e30, " from -1e30 to 1e30"),
    "target_deviation": (1e-30, 1e30, " from 1e-30 to 1e30"),  # float32 holds little more
}
DERIVED = ("hidden_size", "projection_dim", "num_hidden_layers")
# What config files compute that were saved before they had these fields.
EARLIER = {"attention_function": "softmax", "normalize_states": False, "penalty": "frobenius"}
# What a caller may choose and a file may not: transformers fetches some of these from the Hub.
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]


@strict
class SelfAttentiveConfig(PreTrainedConfig):
    r"""Sizes and choices of a self-attentive model; the defaults train well on some 10,000 texts.

    Symbols are those of Lin et al., *A Structured Self-Attentive Sentence Embedding* (ICLR 2017).
    The paper's u = 300, d_a = 350, r = 30 and b = 2000 overfit so few texts. Its attention is
    `attention_function="softmax"`, `normalize_states=False`, `penalty="frobenius"`,
    `penalty_coef=1.0`; on long texts its hops stay near even and alike, so the defaults are others.

    Args:
        vocab_size: Rows of the embedding matrix.
        embedding_size: d, the width of a word vector.
        encoder: What turns the T word vectors into T states H: the paper's `bilstm`, `cnn` (Kim,
            2014), `dilated_cnn` (a residual stack), `relation_network` (Santoro et al., 2017),
            `none` (the word vectors themselves: a bag of vectors) or `auto_model` (an encoder of
            transformers, such as BERT). The sizes of the others are ignored.
        encoder_config: The config of `auto_model`, or its fields with `model_type` as a dict, which
            `sase_hf.build_on_encoder` fills in. The model's `embeddings` are its word vectors.
        lstm_hidden_size: u, LSTM units per direction; the states are 2u wide.
        num_lstm_layers: Bidirectional layers, each reading the states of the one below.
        lstm_shortcuts: Let each of two or more layers read the word vectors and all states below.
        cnn_kernel_sizes: Widths of the convolutions of `cnn`, in tokens.
        cnn_num_filters: Filters of each of these widths; the states hold them side by side.
        cnn_num_layers: Layers of `cnn`, each reading the states of the one below.
        dilated_cnn_hidden_size: H, the width of the states of `dilated_cnn`.
        dilated_cnn_kernel_size: k, the tokens that a layer of `dilated_cnn` reads.
        dilated_cnn_num_layers: L, the layers of `dilated_cnn`, with gaps of 1, 2, 4, ... tokens; a
            state reads 1 + (k - 1) (2^L - 1) tokens.
        relation_hidden_size: H, the width of the states of `relation_network`.
        relation_weights: How `relation_network` weighs the partners of a token: all by 1 (`none`),
            each by a gate of its own (`sigmoid`), or by weights that sum to 1 (`softmax`).
        relation_window: The furthest partners that a token of `relation_network` relates to, in
            tokens; None for all. A token relates to itself, too.
        pooling: What turns the states into the sentence matrix M. `self_attention` is the paper's;
            `generalized` has a weight for each feature (Chen, Ling and Zhu, 2018); `max`, `mean`
            and `last` (the final state of each direction) are baselines of one row.
        attention_size: d_a, the hidden units of the attention MLP (equation 6).
        num_hops: r, the rows of the attention matrix A and of M.
        attention_function: What makes weights of a hop's scores: `entmax15` (Peters, Niculae and
            Martins, 2019) or `sparsemax` (Martins and Astudillo, 2016), which give most tokens a
            weight of exactly 0, or the paper's `softmax`.
        normalize_states: Give the attention each state with mean 0 and variance 1 (a layer norm
            without weights). States of an LSTM are small, so that the scores of plain states stay
            near 0 and their softmax near even.
        penalty: What keeps hops apart: the mean `cosine` between two hops, from 0 to 1 for any
            number of hops and tokens; \|\|A A^T - I\|\|_F^2 (equation 8, `frobenius`), which grows
            with the square of the hops; or minus the mean Kullback-Leibler divergence of two hops
            (`kl`, with `softmax` only). `generalized` pooling has one of its own, on the distances
            of the hops' weights, and ignores this.
        penalty_coef: Weight of the penalty in the loss.
        classifier: `mlp`, one hidden ReLU layer over all of M, or `pruned_mlp` (Appendix A).
        classifier_hidden_size: b, the hidden units of `mlp`.
        pruned_row_size: p, the hidden units of `pruned_mlp` that read one row of M.
        pruned_column_size: q, the hidden units of `pruned_mlp` that read one column of M.
        matching: How the entailment head compares two sentences: `gated` (Appendix B) or `concat`,
            the rows [u; v; |u - v|; u * v].
        score_mode: How the retrieval head compares a query with a document: by `rows`, the mean
            over the query's rows of the cosine to the most similar row of the document, or `flat`,
            the cosine of the flattened matrices.
        score_temperature: What the retrieval head divides the scores by in its loss.
        embedding_dropout: Acts on the word vectors before the encoder.
        classifier_dropout: Acts on the input of the classifier and on its hidden layer.
        label_smoothing: Share of the target probability spread over all labels, single-label
            problems only. Use it instead of `TrainingArguments.label_smoothing_factor`, which takes
            the labels away from the model and with them the penalty.
        class_weights: Weight of each class in the task loss, in id order; single-label problems
            only. None for 1 each.
        target_mean: Mean of each target of a regression, which the model adds to what it computes.
            None for 0 each.
        target_deviation: Deviation of each target of a regression, which the model multiplies what
            it computes by, and divides errors by in the loss. None for 1 each.
        freeze_embeddings: Keep the word vectors as they are; holds after `from_pretrained` too.
        pad_token_id: The row of the embedding matrix that stays zero, or None.
        initializer_range: Standard deviation of fresh word vectors; all other weights start
            Glorot uniform, biases zero.

    Raises:
        StrictDataclassFieldValidationError: If a field has the wrong type or an unknown choice.
        StrictDataclassClassValidationError: If a size, a rate or a relation is out of range.
        TypeError: If an unknown keyword looks like a misspelt field.
        ValueError: If a derived number is given that its parts contradict.
    """

    model_type = "self_attentive"
    keys_to_ignore_at_inference = [
        "penalty",
        "attentions",
        "pair_attentions",
        "hidden_states",
        "sentence_embedding",
        "last_hidden_state",
    ]
    attribute_map = {"num_attention_heads": "num_hops"}
    sub_configs = {"encoder_config": AutoConfig}
    # Read by transformers when it warns of padding without a mask.
    bos_token_id = eos_token_id = sep_token_id = None
    # Pipeline tasks that an installed package provides, so that a checkpoint's code is not needed.
    local_pipelines = tuple[str, ...]()
    # Fields of transformers; declared again since `strict` skips types that are stored as text.
    problem_type: ProblemType | None = None
    id2label: dict[int, str] | dict[str, str] | None = None
    label2id: dict[str, int] | dict[str, str] | None = None
    vocab_size: int = 30000
    embedding_size: int = 100
    encoder: Literal["bilstm", "cnn", "dilated_cnn", "relation_network", "none", "auto_model"] = (
        "bilstm"
    )
    encoder_config: PreTrainedConfig | dict[str, Any] | None = None
    lstm_hidden_size: int = 150
    num_lstm_layers: int = 1
    lstm_shortcuts: bool = False
    cnn_kernel_sizes: list[int] | tuple[int, ...] = (3, 4, 5)
    cnn_num_filters: int = 100
    cnn_num_layers: int = 1
    dilated_cnn_hidden_size: int = 300
    dilated_cnn_kernel_size: int = 3
    dilated_cnn_num_layers: int = 4
    relation_hidden_size: int = 64
    relation_weights: Literal["none", "sigmoid", "softmax"] = "none"
    relation_window: int | None = None
    pooling: Literal["self_attention", "generalized", "max", "mean", "last"] = "self_attention"
    attention_size: int = 150
    num_hops: int = 10
    attention_function: Literal["softmax", "entmax15", "sparsemax"] = "entmax15"
    normalize_states: bool = True
    penalty: Literal["frobenius", "cosine", "kl"] = "cosine"
    penalty_coef: float | int = 0.02
    classifier: Literal["mlp", "pruned_mlp"] = "mlp"
    classifier_hidden_size: int = 300
    pruned_row_size: int = 30
    pruned_column_size: int = 2
    matching: Literal["gated", "concat"] = "gated"
    score_mode: Literal["rows", "flat"] = "rows"
    score_temperature: float | int = 0.05
    embedding_dropout: float | int = 0.3
    classifier_dropout: float | int = 0.5
    label_smoothing: float | int = 0.0
    class_weights: list[float | int] | tuple[float | int, ...] | None = None
    target_mean: list[float | int] | tuple[float | int, ...] | None = None
    target_deviation: list[float | int] | tuple[float | int, ...] | None = None
    freeze_embeddings: bool = False
    pad_token_id: int | None = 0
    initializer_range: float | int = 0.1

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in the fields left out, and refuse misspelt names."""
        self._refuse_misspelt_fields(kwargs)
        if kwargs.pop("relation_gate", False):  # the name of `sigmoid` in older files
            self.relation_weights = "sigmoid"
        if self.encoder_config is not None:
            self.encoder_config = _checked_encoder_config(self.encoder_config)
        tasks = kwargs.pop("custom_pipelines", None) or {}
        if kept := {task: tasks[task] for task in tasks if task not in self.local_pipelines}:
            kwargs["custom_pipelines"] = kept
        for name, labels in _both_label_maps(self.id2label, self.label2id).items():
            setattr(self, name, labels)
        super().__post_init__(**kwargs)
        if self.architectures is None:
            # Auto classes choose between the two heads by this name and do not accept None.
            self.architectures = ["SelfAttentiveForSequenceClassification"]
        if self.problem_type is None and self.num_labels == 1:
            # The text-classification pipeline would otherwise apply a sigmoid to the output.
            self.problem_type = "regression"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Make a config of a file's fields and overrides; overridden derived numbers come last.

        Fields that the file lacks because it is older have the values of the paper.
        """
        config_dict = EARLIER | config_dict  # newer files hold all fields
        for name in IMPLEMENTATIONS:
            config_dict.pop(name, None)
        maps = _both_label_maps(kwargs.pop("id2label", None), kwargs.pop("label2id", None))
        kwargs |= {name: labels for name, labels in maps.items() if labels is not None}
        kwargs |= {name: kwargs.pop(name) for name in DERIVED if name in kwargs}
        made = super().from_dict(config_dict, **kwargs)
        (made[0] if isinstance(made, tuple) else made).validate()
        return made

    @classmethod
    def from_json_file(cls, json_file: Any) -> Any:
        """Make a config of a file, as `from_pretrained` does."""
        return cls.from_dict(cls._dict_from_json_file(json_file))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; a derived number is accepted only if it is right."""
        if name == "num_labels":  # before transformers makes a name for each
            is_number = isinstance(value, Integral) and not isinstance(value, bool)
            if not is_number or not 1 <= value <= MAX_NUM_LABELS:
                raise ValueError(
                    f"num_labels is {value!r}; give an integer from 1 to {MAX_NUM_LABELS}, or "
                    "id2label"
                )
        if name in ("cnn_kernel_sizes", *NUMBERS_PER_LABEL) and isinstance(value, list):
            value = tuple(value)  # JSON has only lists
        if name == "id2label" and value:
            value = {int(index): label for index, label in value.items()}
        if name == "label2id" and value:  # some checkpoints of transformers have {"LABEL_0": "0"}
            value = {label: int(index) for label, index in value.items()}
        if name not in DERIVED:
            super().__setattr__(name, value)
        elif value is not None and value != getattr(self, name):
            raise ValueError(
                f"{name} is {value}, but it is derived from the sizes of the encoder: "
                f"{getattr(self, name)}. Leave {name} out"
            )

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
        return self.pooling in ("self_attention", "generalized")

    @property
    def weighs_pairs(self) -> bool:
        """Whether the encoder weighs pairs of tokens, and so has `pair_attentions`."""
        return self.encoder == "relation_network" and self.relation_weights != "none"

    @property
    def num_rows(self) -> int:
        """Rows of the sentence matrix M: r, or 1 for the poolings without attention."""
        return self.num_hops if self.has_attention else 1

    @property
    def projection_dim(self) -> int:
        """Width of the flattened sentence matrix, r * H."""
        return self.num_rows * self.hidden_size

    def to_dict(self) -> dict[str, Any]:
        """Return every field, with the derived widths for readers that know only those."""
        widths = {"hidden_size": self.hidden_size, "projection_dim": self.projection_dim}
        return super().to_dict() | widths

    def validate_fields(self) -> None:
        """Refuse sizes, rates and choices that no model can have; `strict` calls this.

        Sizes are checked for their type again, because an alias of `attribute_map` bypasses it.
        """
        self._check_encoder()
        self._check_sizes()
        self._check_rates()
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id is {self.pad_token_id}; it must be None or below "
                f"vocab_size={self.vocab_size}"
            )
        if not self.num_labels:
            raise ValueError(f"num_labels is {self.num_labels}; give 1 or more, or id2label")
        names: dict[Any, str] = dict(self.id2label or {})
        if sorted(names) != list(range(len(names))) or len(set(names.values())) != len(names):
            raise ValueError(
                f"id2label is {names}; each id from 0 to {len(names) - 1} must have its own name"
            )
        if self.label2id != {name: index for index, name in names.items()}:
            raise ValueError(f"label2id is {self.label2id}, but id2label is {names}; leave one out")
        for name, off, kinds in (
            ("label_smoothing", 0, (None, "single_label_classification")),
            ("class_weights", None, (None, "single_label_classification")),
            ("target_mean", None, ("regression",)),
            ("target_deviation", None, ("regression",)),
        ):
            if getattr(self, name) and self.problem_type not in kinds:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, but problem_type is "
                    f"{self.problem_type!r}; set it to {off}"
                )

    def _check_sizes(self) -> None:
        """Refuse sizes below 1 or beyond what a machine could hold."""
        hints = {**SelfAttentiveConfig.__annotations__, "hidden_size": int}
        for name in (name for name, hint in hints.items() if hint is int):
            largest, size = MAX_SIZES.get(name, MAX_LAYER_SIZE), getattr(self, name)
            if not isinstance(size, int) or not 1 <= size <= largest:
                raise ValueError(f"{name} is {size!r}; it must be from 1 to {largest}, an integer")
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

    def _check_rates(self) -> None:
        """Refuse rates outside [0, 1) and coefficients that are negative or not finite."""
        for name in ("embedding_dropout", "classifier_dropout", "label_smoothing"):
            rate = getattr(self, name)
            if not 0 <= rate < 1:
                raise ValueError(f"{name} is {rate}; it must be at least 0 and below 1")
        for name in ("penalty_coef", "initializer_range"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; it must be a finite number, 0 or more")
        if not 0 < self.score_temperature < math.inf:
            raise ValueError(
                f"score_temperature is {self.score_temperature}; it must be a finite number above 0"
            )
        for name, (least, most, form) in NUMBERS_PER_LABEL.items():
            numbers = getattr(self, name)
            if numbers is not None and not (
                len(numbers) == self.num_labels and all(least <= n <= most for n in numbers)
            ):
                raise ValueError(
                    f"{name} is {list(numbers)}; it must be None or {self.num_labels} finite "
                    f"numbers{form}: one for each label"
                )

    def _check_encoder(self) -> None:
        """Refuse settings that need another encoder."""
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
        switches = {
            "lstm_shortcuts": "bilstm",
            "relation_weights": "relation_network",
            "relation_window": "relation_network",
            "encoder_config": "auto_model",
        }
        for name, encoder in switches.items():
            if (
                getattr(self, name) != getattr(SelfAttentiveConfig, name)
                and self.encoder != encoder
            ):
                raise ValueError(f"{name} needs encoder={encoder!r}, not {self.encoder!r}")
        if self.penalty == "kl" and self.attention_function != "softmax":
            raise ValueError(
                f"penalty='kl' needs attention_function='softmax', not "
                f"{self.attention_function!r}, whose weights of 0 have no logarithm"
            )
        if self.lstm_shortcuts and self.num_lstm_layers == 1:
            raise ValueError("lstm_shortcuts needs 2 or more num_lstm_layers, not 1")

    def _refuse_misspelt_fields(self, unknown: dict[str, Any]) -> None:
        """Raise TypeError if an unknown keyword resembles a field; keep all others."""
        own = self.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
        known = {field.name for field in fields(self)} | set(self.attribute_map) | set(DERIVED)
        for name in sorted(unknown.keys() - known):
            if close := difflib.get_close_matches(name, own, n=1, cutoff=0.8):
                raise TypeError(f"there is no field {name!r}; did you mean {close[0]!r}?")


def _checked_encoder_config(config: PreTrainedConfig | dict[str, Any]) -> PreTrainedConfig:
    """Return the config of an encoder of text, made of the fields that its own class declares.

    Others could name files or code, such as `auto_map` and `attn_implementation`.

    Raises:
        ValueError: If transformers knows no such encoder of text, or a number is out of range.
    """
    given = config.to_dict() if isinstance(config, PreTrainedConfig) else config
    name = given.get("model_type")
    if name not in INNER_TYPES:
        raise ValueError(
            f"encoder_config has the model_type {name!r}; encoder='auto_model' can be one of "
            f"{', '.join(INNER_TYPES)}"
        )
    kind: Any = CONFIG_MAPPING[name]
    known = {field.name for field in fields(kind)} - {"dtype", "transformers_version"}
    made: PreTrainedConfig = kind(**{key: given[key] for key in known & given.keys()})
    layers = made.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    for name, value in vars(made).items():
        # Sizes have defaults above 0; other whole numbers, such as ids, may be anything below.
        is_size = type(getattr(kind, name, None)) is int and getattr(kind, name) > 0
        least = 1 if is_size and not name.endswith("_id") else -math.inf
        least = 0 if isinstance(value, float) else least
        most = MAX_INNER_LAYERS if name == layers else MAX_SIZES["vocab_size"]
        if isinstance(value, int | float) and not least <= value <= most:
            raise ValueError(
                f"encoder_config has {name}={value}; it must be from {max(least, 0)} to {most}"
            )
    return made


def _both_label_maps(id2label: Any, label2id: Any) -> dict[str, Any]:
    """Return both maps, a missing one inverted from the other."""
    if isinstance(id2label, dict) and not label2id:
        label2id = {name: index for index, name in id2label.items()}
    elif isinstance(label2id, dict) and not id2label:
        id2label = {index: name for name, index in label2id.items()}
    return {"id2label": id2label, "label2id": label2id}


__all__ = ["SelfAttentiveConfig"]
