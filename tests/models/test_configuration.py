"""The config: what it derives, what it refuses and how it travels."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from transformers import PreTrainedConfig

from sase_hf import SelfAttentiveConfig, SelfAttentiveModel

SIZES = (
    "vocab_size",
    "embedding_size",
    "lstm_hidden_size",
    "num_lstm_layers",
    "cnn_num_filters",
    "dilated_cnn_hidden_size",
    "dilated_cnn_kernel_size",
    "dilated_cnn_num_layers",
    "relation_hidden_size",
    "attention_size",
    "num_hops",
    "classifier_hidden_size",
    "pruned_row_size",
    "pruned_column_size",
)
RATES = ("embedding_dropout", "classifier_dropout", "label_smoothing")
COEFFICIENTS = ("penalty_coef", "initializer_range")
SWITCHES = ("lstm_shortcuts", "relation_gate", "freeze_embeddings")
CHOICES = {
    "encoder": ("bilstm", "cnn", "dilated_cnn", "relation_network"),
    "pooling": tiny.POOLINGS,
    "classifier": ("mlp", "pruned_mlp"),
    "matching": ("gated", "concat"),
}
FIELDS = (
    *SIZES,
    *RATES,
    *COEFFICIENTS,
    *SWITCHES,
    *CHOICES,
    "cnn_kernel_sizes",
    "pad_token_id",
)


def test_defaults_are_the_papers_sizes() -> None:
    """Those of the Age model, section 4.1: d, 2u, d_a, r, b, penalty and dropout."""
    config = SelfAttentiveConfig()
    assert (config.embedding_size, config.hidden_size, config.attention_size) == (100, 600, 350)
    assert (config.num_hops, config.projection_dim) == (30, 30 * 600)
    assert (config.classifier_hidden_size, config.classifier_dropout) == (2000, 0.5)
    assert config.penalty_coef == 1.0


def test_these_tests_know_every_field() -> None:
    """A field that is added later must be added to the lists above, and with it to the tests."""
    own = set(SelfAttentiveConfig.__annotations__) - set(PreTrainedConfig.__annotations__)
    assert own == set(FIELDS)


@pytest.mark.parametrize("pooling", CHOICES["pooling"])
def test_widths_are_derived_and_written_down(pooling: str, tmp_path: Path) -> None:
    """SentenceTransformer and others read `hidden_size` and `projection_dim` from config.json."""
    config = tiny.tiny_config(pooling=pooling)
    config.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    rows = 3 if pooling in ("self_attention", "generalized") else 1
    assert config.has_attention is (rows == 3)
    assert (written["hidden_size"], written["projection_dim"]) == (8, rows * 8)


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"encoder": "bilstm", "lstm_hidden_size": 3}, 6),
        ({"encoder": "cnn", "cnn_kernel_sizes": (2, 3, 5), "cnn_num_filters": 7}, 21),
        ({"encoder": "dilated_cnn", "dilated_cnn_hidden_size": 5}, 5),
        ({"encoder": "relation_network", "relation_hidden_size": 9}, 9),
    ],
)
def test_the_width_of_the_states_is_the_encoders(fields: dict[str, Any], width: int) -> None:
    """What stands above reads `hidden_size`, whatever makes it."""
    config = tiny.tiny_config(**fields)
    assert config.hidden_size == width
    outputs = SelfAttentiveModel(config)(torch.tensor([[1, 2]]))
    assert outputs.last_hidden_state.shape == (1, 2, width)


CHOSEN_TOGETHER = [
    {"pooling": "last", "lstm_shortcuts": True},
    {"pooling": "generalized", "encoder": "relation_network", "relation_gate": True},
]


@pytest.mark.parametrize("chosen", CHOSEN_TOGETHER)
def test_config_survives_saving_and_loading(chosen: dict[str, Any], tmp_path: Path) -> None:
    """Every field, changed from its default, comes back, and so do labels and problem type."""
    config = SelfAttentiveConfig(
        **chosen,
        vocab_size=50,
        embedding_size=2,
        lstm_hidden_size=3,
        num_lstm_layers=2,
        cnn_kernel_sizes=[2, 7],
        cnn_num_filters=9,
        dilated_cnn_hidden_size=10,
        dilated_cnn_kernel_size=2,
        dilated_cnn_num_layers=3,
        relation_hidden_size=11,
        attention_size=4,
        num_hops=5,
        penalty_coef=0.25,
        classifier="pruned_mlp",
        classifier_hidden_size=6,
        pruned_row_size=7,
        pruned_column_size=8,
        matching="concat",
        embedding_dropout=0.1,
        classifier_dropout=0.2,
        label_smoothing=0.3,
        freeze_embeddings=True,
        pad_token_id=None,
        initializer_range=0.4,
        id2label={0: "no", 1: "yes"},
        problem_type="single_label_classification",
    )
    defaults = SelfAttentiveConfig()
    kept = [name for name in FIELDS if getattr(config, name) == getattr(defaults, name)]
    elsewhere = {name for fields in CHOSEN_TOGETHER for name in fields} - chosen.keys()
    assert set(kept) == elsewhere, "the premise is that here or there every field is changed"

    config.save_pretrained(tmp_path)
    assert SelfAttentiveConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
    assert SelfAttentiveConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()


def test_a_number_to_predict_is_regression() -> None:
    """The text-classification pipeline would otherwise squash the output of a single label."""
    assert SelfAttentiveConfig(num_labels=1).problem_type == "regression"
    assert SelfAttentiveConfig(num_labels=3).problem_type is None


@pytest.mark.parametrize("value", ["3", 3.0, True, None, [3]])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_another_type_are_refused(name: str, value: Any) -> None:
    """A size from a form or a hand-written file is not guessed at."""
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{name}' expected int"):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", ["0.5", True, None])
@pytest.mark.parametrize("name", [*RATES, *COEFFICIENTS])
def test_numbers_of_another_type_are_refused(name: str, value: Any) -> None:
    """Whole numbers are welcome where fractions are; text and truth values are not."""
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{name}' with value {value!r}"):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", [1, "true", None])
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_true_or_false(name: str, value: Any) -> None:
    """`"false"` would be true."""
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{name}' expected"):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", ["3", 3, None, [3.0], ["3"], [3, True], {3}, [[3]]])
def test_kernel_sizes_of_another_type_are_refused(value: Any) -> None:
    """A list of whole numbers, and no single one: a flag of one width is a list too."""
    with pytest.raises(StrictDataclassFieldValidationError, match="'cnn_kernel_sizes'"):
        SelfAttentiveConfig(cnn_kernel_sizes=value)


@pytest.mark.parametrize("value", [[], [0], [3, -1], [3, 1025]])
def test_kernel_sizes_out_of_range_are_refused(value: list[int]) -> None:
    """Without a width there are no states; one of no token, or of a whole book, is a mistake."""
    with pytest.raises(
        StrictDataclassClassValidationError,
        match=rf"cnn_kernel_sizes is {re.escape(str(value))}; .* one width or more, each from 1 to",
    ):
        SelfAttentiveConfig(cnn_kernel_sizes=value)


@pytest.mark.parametrize("given", [[2, 5], (2, 5)])
def test_kernel_sizes_are_a_list_in_a_file_and_a_tuple_in_a_config(
    given: Any, tmp_path: Path
) -> None:
    """JSON has no tuples; two configs that say the same must be equal wherever they come from."""
    config = SelfAttentiveConfig(encoder="cnn", cnn_kernel_sizes=given)
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["cnn_kernel_sizes"] == [2, 5]
    loaded = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert loaded.cnn_kernel_sizes == config.cnn_kernel_sizes == (2, 5)
    changed = SelfAttentiveConfig.from_pretrained(tmp_path, cnn_kernel_sizes=[3, 4])
    assert changed.cnn_kernel_sizes == (3, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        *(
            (
                {"encoder": encoder, "pooling": "last"},
                f"pooling is 'last'.* encoder='{encoder}' has no direction; choose another",
            )
            for encoder in CHOICES["encoder"][1:]
        ),
        *(
            (
                {"encoder": encoder, "lstm_shortcuts": True},
                f"lstm_shortcuts is set, but encoder is '{encoder}'.* choose encoder='bilstm'",
            )
            for encoder in CHOICES["encoder"][1:]
        ),
        *(
            (
                {"encoder": encoder, "relation_gate": True},
                f"relation_gate is set, but encoder is '{encoder}'.* encoder='relation_network'",
            )
            for encoder in CHOICES["encoder"][:-1]
        ),
    ],
)
def test_what_the_encoder_does_not_have_is_refused(fields: dict[str, Any], message: str) -> None:
    """Passed over, a switch that does nothing would be reported as a result."""
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        SelfAttentiveConfig(**fields)


def test_shortcuts_past_no_layer_are_refused() -> None:
    """A single layer, the default, reads the same with them and without."""
    message = "lstm_shortcuts is set, but num_lstm_layers is 1; set 2 or more, or leave it out"
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        SelfAttentiveConfig(lstm_shortcuts=True)
    assert SelfAttentiveConfig(lstm_shortcuts=True, num_lstm_layers=2).lstm_shortcuts


@pytest.mark.parametrize("value", ["attentive", 3, None])
@pytest.mark.parametrize("name", CHOICES)
def test_unknown_choices_are_refused_with_the_known_ones(name: str, value: Any) -> None:
    """The message lists what there is."""
    allowed = "', '".join(CHOICES[name])
    with pytest.raises(
        StrictDataclassFieldValidationError, match=f"'{name}' expected one of .'{allowed}'.*{value}"
    ):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", [0, -1, 10**12, 10**30])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_out_of_range_are_refused(name: str, value: int) -> None:
    """Below one there is no layer; beyond any machine's memory there is a mistake or an attack."""
    with pytest.raises(
        StrictDataclassClassValidationError, match=f"{name} is {value}; it must be from 1 to"
    ):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "largest"), [("dilated_cnn_kernel_size", 1024), ("dilated_cnn_num_layers", 20)]
)
def test_a_stack_that_would_reach_beyond_any_text_is_refused(name: str, largest: int) -> None:
    """Its gaps double from layer to layer; at 20 layers they are half a million tokens."""
    assert getattr(SelfAttentiveConfig(**{name: largest}), name) == largest
    with pytest.raises(StrictDataclassClassValidationError, match=f"{name} is {largest + 1}"):
        SelfAttentiveConfig(**{name: largest + 1})


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, math.nan])
@pytest.mark.parametrize("name", RATES)
def test_rates_outside_zero_to_one_are_refused(name: str, value: float) -> None:
    """A dropout of 1 would drop everything."""
    with pytest.raises(
        StrictDataclassClassValidationError, match=f"{name} is {value}; .* at least 0 and below 1"
    ):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf])
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_must_be_finite_and_not_negative(name: str, value: float) -> None:
    """A negative penalty would reward hops that agree; NaN would spread through the loss."""
    with pytest.raises(StrictDataclassClassValidationError, match=f"{name} is {value}; .* finite"):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("value", [-1, 23, 10**9])
def test_a_padding_id_outside_the_vocabulary_is_refused(value: int) -> None:
    """It names a row of the embedding matrix."""
    with pytest.raises(
        StrictDataclassClassValidationError, match=f"pad_token_id is {value}; .*vocab_size=23"
    ):
        tiny.tiny_config(pad_token_id=value)


@pytest.mark.parametrize(("name", "value"), [("problem_type", "regresion"), ("num_labels", 0)])
def test_a_head_that_cannot_be_built_is_refused(name: str, value: Any) -> None:
    """Fields of transformers too: a misspelt problem type would train another loss."""
    errors = (StrictDataclassClassValidationError, StrictDataclassFieldValidationError)
    with pytest.raises(errors, match=f"{name}.*{value!r}"):
        SelfAttentiveConfig(**{name: value})


@pytest.mark.parametrize("name", FIELDS)
def test_a_misspelt_field_is_refused_with_the_right_name(name: str) -> None:
    """Kept as an unknown attribute, it would leave the default in force without a word."""
    with pytest.raises(TypeError, match=f"no field '{name[:-1]}'; did you mean '{name}'"):
        SelfAttentiveConfig(**{name[:-1]: 1})


def test_unknown_fields_that_resemble_none_pass() -> None:
    """A reload hands over what hubs and later versions of transformers write."""
    config = SelfAttentiveConfig(auto_map={"AutoModel": "a.B"}, custom_pipelines={}, torchscript=1)
    assert config.auto_map == {"AutoModel": "a.B"}


@pytest.mark.parametrize(("alias", "name"), SelfAttentiveConfig.attribute_map.items())
def test_names_of_transformers_mean_ours(alias: str, name: str) -> None:
    """Tools ask every model for `num_attention_heads`."""
    config = SelfAttentiveConfig(**{alias: 7})
    assert getattr(config, name) == 7
    assert getattr(config, alias) == 7
    with pytest.raises(StrictDataclassClassValidationError, match=name):
        SelfAttentiveConfig(**{alias: "7"})


@pytest.mark.parametrize("name", ["hidden_size", "projection_dim", "num_hidden_layers"])
def test_a_derived_number_may_be_repeated_but_not_contradicted(name: str, tmp_path: Path) -> None:
    """A saved config repeats it; a wish for another belongs into its parts, in a reload too."""
    tiny.tiny_config().save_pretrained(tmp_path)
    derived = getattr(tiny.tiny_config(), name)
    assert getattr(tiny.tiny_config(**{name: derived}), name) == derived
    with pytest.raises(ValueError, match=f"{name} is 5, but it is derived: .* Leave {name} out"):
        tiny.tiny_config(**{name: 5})
    with pytest.raises(ValueError, match=f"{name} is 5, but it is derived: .* Leave {name} out"):
        SelfAttentiveConfig.from_pretrained(tmp_path, **{name: 5})


@pytest.mark.parametrize("encoder", tiny.ENCODERS, ids=tiny.name_of)
def test_a_file_that_counts_the_layers_is_read(encoder: dict[str, Any], tmp_path: Path) -> None:
    """An exported model's config.json does so, for servers, and its sizes must come back."""
    config = tiny.tiny_config(**{**encoder, "num_lstm_layers": 3})
    written = config.to_dict() | {"num_hidden_layers": config.num_hidden_layers}
    (tmp_path / "config.json").write_text(json.dumps(written))
    loaded = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert loaded.num_hidden_layers == config.num_hidden_layers
    assert loaded.num_lstm_layers == 3


def test_a_wrong_type_is_refused_on_assignment_too() -> None:
    """`config.num_hops = "3"` fails where it is written, not deep in a model."""
    config = SelfAttentiveConfig()
    with pytest.raises(StrictDataclassFieldValidationError, match="'num_hops' expected int"):
        config.num_hops = "3"


def test_a_value_out_of_range_cannot_be_saved(tmp_path: Path) -> None:
    """Relations are checked again before a config leaves the process."""
    config = SelfAttentiveConfig()
    config.num_hops = 0
    with pytest.raises(StrictDataclassClassValidationError, match="num_hops is 0"):
        config.save_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id2label": {0: "a", 2: "b"}}, "id2label is .*each id from 0 to 1"),
        ({"id2label": {0: "a", 1: "a"}}, "id2label is .*a name of its own"),
        ({"id2label": {0: "a", 1: "b"}, "label2id": {"a": 1, "b": 0}}, "label2id is .*the same"),
        ({"num_labels": 1, "label_smoothing": 0.1}, "label_smoothing is 0.1.*'regression'"),
    ],
)
def test_labels_that_contradict_each_other_are_refused(fields: Any, message: str) -> None:
    """A pipeline would name the wrong class, or lose one."""
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        SelfAttentiveConfig(**fields)


def test_filters_that_are_many_only_together_are_refused() -> None:
    """Each size may be within its limit and the states still wider than any machine can hold."""
    with pytest.raises(
        StrictDataclassClassValidationError, match="hidden_size is 2097152; it must"
    ):
        SelfAttentiveConfig(encoder="cnn", cnn_kernel_sizes=[3, 4], cnn_num_filters=2**20)
