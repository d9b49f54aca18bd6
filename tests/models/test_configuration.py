"""The config: derived numbers, refused values, label maps, saving and loading."""

import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from transformers import AutoConfig, PreTrainedConfig

from sase_hf import RNNSearchConfig, SelfAttentiveConfig, SelfAttentiveModel


@pytest.mark.parametrize(
    "field", ["encoder", "pooling", "penalty", "attention_function", "classifier", "matching"]
)
def test_choices_of_the_config_are_all_in_the_lists_of_the_tests(field: str) -> None:
    """A new encoder, pooling or head is compared with the reference, and runs in each model."""
    listed = (tiny.ON_BERT, *tiny.ARCHITECTURES, *(fields for _, fields in tiny.OWN_MODELS))
    choices = get_args(SelfAttentiveConfig.__annotations__[field])
    default = getattr(SelfAttentiveConfig(), field)
    assert {fields.get(field, default) for fields in listed} == {*choices}


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"encoder": "bilstm", "lstm_hidden_size": 3}, 6),
        ({"encoder": "cnn", "cnn_kernel_sizes": (2, 3, 5), "cnn_num_filters": 7}, 21),
        ({"encoder": "dilated_cnn", "dilated_cnn_hidden_size": 5}, 5),
        ({"encoder": "relation_network", "relation_hidden_size": 9}, 9),
        ({"encoder": "none", "embedding_size": 7}, 7),
        (tiny.ON_BERT, 8),
    ],
)
def test_config_derives_widths(fields: dict[str, Any], width: int) -> None:
    for pooling, rows in (("self_attention", 3), ("mean", 1)):
        config = tiny.tiny_config(**fields, pooling=pooling)
        assert config.has_attention is (rows == 3)
        assert (config.hidden_size, config.projection_dim) == (width, rows * width)
    outputs = SelfAttentiveModel(config)(torch.tensor([[1, 2]]))
    assert outputs.last_hidden_state.shape == (1, 2, width)


def test_config_survives_saving_and_loading(tmp_path: Path) -> None:
    """Every number is changed, and every choice that goes with these."""
    fields: dict[str, Any] = {
        "cnn_kernel_sizes": [2, 7],
        "pooling": "last",
        "lstm_shortcuts": True,
        "classifier": "pruned_mlp",
        "matching": "concat",
        "freeze_embeddings": True,
        "pad_token_id": None,
        "id2label": {0: "no", 1: "yes"},
        "problem_type": "single_label_classification",
    }
    for name in set(SelfAttentiveConfig.__annotations__) - set(PreTrainedConfig.__annotations__):
        default = getattr(SelfAttentiveConfig, name)
        if type(default) in (int, float):
            fields.setdefault(name, default + 1 if type(default) is int else default / 2 + 0.1)
    config = SelfAttentiveConfig(**fields)
    config.save_pretrained(tmp_path)
    loaded = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == config.to_dict()
    assert {name: getattr(loaded, name) for name in fields} == fields


@pytest.mark.parametrize(
    "field",
    [
        {"pooling": "generalized"},
        {"num_hops": 2.5},
        {"encoder": {}},
        {"architectures": 3},
    ],
    ids=str,
)
def test_config_of_a_file_refuses_unknown_choices_and_types(
    field: dict[str, Any], tmp_path: Path
) -> None:
    written = SelfAttentiveConfig().to_dict() | field
    (tmp_path / "config.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(StrictDataclassFieldValidationError, match=r"pooling|num_hops|enc|archi"):
        AutoConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"num_hops": 0}, "num_hops is 0; it must be from 1 to"),
        ({"cnn_kernel_sizes": [3, 1025]}, r"cnn_kernel_sizes is .3, 1025.; .* from 1 to 1024"),
        ({"classifier_dropout": 1.5}, "classifier_dropout is 1.5; .* from 0 to 0.99"),
        ({"label_smoothing": math.nan}, "label_smoothing is nan"),
        ({"penalty_coef": -1}, "penalty_coef is -1; .* from 0 to 1000"),
        ({"rationale_coef": math.inf}, "rationale_coef is inf; it must be from 0 to 1000"),
        ({"label_smoothing": 0.99}, "label_smoothing is 0.99; it must be from 0 to 0.5"),
        ({"answer_error": 0}, "answer_error is 0; it must be from"),
        ({"score_temperature": 0}, "score_temperature is 0; .* from"),
        ({"pad_token_id": 23, "vocab_size": 23}, "pad_token_id is 23; .* from 0 to 22"),
        ({"encoder": "cnn", "pooling": "last"}, "pooling is 'last'.* encoder is 'cnn'"),
        ({"encoder": "cnn", "lstm_shortcuts": True}, "lstm_shortcuts is True.* encoder is 'cnn'"),
        ({"penalty": "kl", "attention_function": "entmax15"}, "penalty is 'kl'.*'entmax15'"),
        ({"encoder": "relation_network", "relation_window": 0}, "relation_window is 0; it must"),
        ({"relation_window": 3}, "relation_window is 3.* encoder is 'bilstm'"),
        ({"lstm_shortcuts": True}, "lstm_shortcuts is True.* num_lstm_layers is 1"),
        ({"encoder_config": tiny.BERT}, r"encoder_config is [\s\S]* encoder is 'bilstm'"),
        ({"id2label": {0: "a", 2: "b"}}, "id2label is .*each id from 0 to 1"),
        ({"num_labels": 1, "label_smoothing": 0.1}, "label_smoothing is 0.1.*'regression'"),
        ({"num_labels": 1, "class_weights": [2.0]}, "class_weights is .2.0.*'regression'"),
        ({"num_labels": 3, "class_weights": [1, 2]}, "class_weights is .* 3 labels"),
        ({"num_labels": 1, "answer_error": 0.1}, "answer_error is 0.1.*'regression'"),
        ({"num_labels": 1, "answer_threshold": 0.1}, "answer_threshold is 0.1.*'regression'"),
        ({"answer_threshold": 1.5}, "answer_threshold is 1.5; it must be from 0 to 1"),
        ({"target_mean": [0, 1]}, "target_mean is .* target_mean must be None"),
        ({"num_labels": 1, "target_deviation": [0]}, "target_deviation is .*from 1e-30"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_config_refuses_what_no_model_can_have(field: dict[str, Any], message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        SelfAttentiveConfig(**field)


def test_config_refuses_an_encoder_of_another_kind() -> None:
    with pytest.raises(ValueError, match=r"model_type 'self_attentive'; .* can be one of albert"):
        SelfAttentiveConfig(
            encoder="auto_model", encoder_config=tiny.BERT | {"model_type": "self_attentive"}
        )


def test_config_of_an_encoder_keeps_only_fields_of_its_class(tmp_path: Path) -> None:
    """What names code or files, or how to attend, is the loader's choice and not the file's."""
    hostile = {
        "auto_map": {"AutoModel": "someone/else--modeling.Model"},
        "attn_implementation": "someone/kernel",
        "_attn_implementation": "someone/kernel",
        "quantization_config": {"quant_method": "gptq"},
        "_name_or_path": "someone/else",
    }
    written = tiny.tiny_config(**tiny.ON_BERT).to_dict() | {"attn_implementation": "someone/kernel"}
    written["encoder_config"] |= hostile
    (tmp_path / "config.json").write_text(json.dumps(written), encoding="utf-8")
    config = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert "someone" not in json.dumps(config.to_dict())
    assert config._attn_implementation is config.encoder_config._attn_implementation is None
    assert not hasattr(config.encoder_config, "quantization_config")


@pytest.mark.parametrize("config_class", [SelfAttentiveConfig, RNNSearchConfig])
@pytest.mark.parametrize("count", [10**12, 2**16 + 1, 0, "3", None])
def test_config_refuses_a_number_of_labels_before_it_names_each(
    config_class: type[PreTrainedConfig], count: Any
) -> None:
    """Also when it is changed later; `labels.max() + 1` of numpy is a number."""
    message = rf"num_labels is {count!r}; give an integer from 1 to 65536, or id2label"
    with pytest.raises(ValueError, match=message):
        config_class.from_dict({"num_labels": count})
    with pytest.raises(ValueError, match=message):
        config_class().num_labels = count
    assert type(config_class(num_labels=np.int64(3)).num_labels) is int


def test_config_refuses_a_misspelt_field_with_the_right_name() -> None:
    """Kept as an unknown attribute, as other fields are, it would leave the default in force."""
    with pytest.raises(TypeError, match="no field 'num_hop'; did you mean 'num_hops'"):
        SelfAttentiveConfig(num_hop=1)
    config = SelfAttentiveConfig(auto_map={"AutoModel": "a.B"}, custom_pipelines={}, torchscript=1)
    assert config.auto_map == {"AutoModel": "a.B"}


@pytest.mark.parametrize("name", ["hidden_size", "projection_dim", "num_hidden_layers"])
def test_config_refuses_derived_numbers(name: str, tmp_path: Path) -> None:
    """To change one, set the sizes it depends on."""
    tiny.tiny_config().save_pretrained(tmp_path)
    for make in (tiny.tiny_config, partial(SelfAttentiveConfig.from_pretrained, tmp_path)):
        with pytest.raises(AttributeError, match=name):
            make(**{name: 5})


def test_config_checks_the_overrides_of_a_checkpoint_together(tmp_path: Path) -> None:
    """Not one by one against fields that the others replace. Saving checks again."""
    tiny.tiny_config(problem_type="single_label_classification").save_pretrained(tmp_path)
    changes = {"id2label": {0: "score"}, "problem_type": "regression"}
    config = SelfAttentiveConfig.from_pretrained(tmp_path, **changes, lstm_hidden_size=9)
    assert (config.num_labels, config.problem_type, config.hidden_size) == (1, "regression", 18)
    with pytest.raises(StrictDataclassClassValidationError, match=r"penalty_coef is -1\.0; it"):
        SelfAttentiveConfig.from_pretrained(tmp_path, penalty_coef=-1.0)
    config.num_hops = 0
    with pytest.raises(StrictDataclassClassValidationError, match="num_hops is 0"):
        config.save_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("written", "overrides"),
    [
        ({"num_labels": 3, "class_weights": [1, 2, 3]}, {"class_weights": None}),
        ({"num_labels": 3, "class_weights": [1, 2, 3]}, {"class_weights": [1] * 5}),
        (
            {"num_labels": 1, "target_mean": [3], "target_deviation": [2]},
            {"target_mean": [0] * 5, "target_deviation": None},
        ),
        (
            {"num_labels": 1, "target_mean": [3], "target_deviation": [2]},
            {
                "target_mean": None,
                "target_deviation": None,
                "problem_type": "single_label_classification",
            },
        ),
    ],
    ids=["classes", "weighted_classes", "targets", "targets_to_classes"],
)
def test_config_checks_another_number_of_labels_with_the_other_overrides(
    written: dict[str, Any], overrides: dict[str, Any], tmp_path: Path
) -> None:
    tiny.tiny_config(**written).save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassClassValidationError, match="for each of 5 labels"):
        SelfAttentiveConfig.from_pretrained(tmp_path, num_labels=5)
    config = SelfAttentiveConfig.from_pretrained(tmp_path, num_labels=5, **overrides)
    assert config.num_labels == 5
    config.save_pretrained(tmp_path)
    assert SelfAttentiveConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


def test_config_keeps_the_names_of_as_many_labels(tmp_path: Path) -> None:
    tiny.tiny_config(id2label={0: "bad", 1: "good"}).save_pretrained(tmp_path)
    config = SelfAttentiveConfig.from_pretrained(tmp_path, num_labels=2)
    assert config.id2label == {0: "bad", 1: "good"}


@pytest.mark.parametrize("labels", [{"num_labels": 1}, {"id2label": {0: "stars"}}], ids=str)
def test_config_of_one_label_is_of_a_regression(labels: dict[str, Any], tmp_path: Path) -> None:
    """As in a new config, so that what is saved can be loaded."""
    tiny.tiny_config(num_labels=3).save_pretrained(tmp_path)
    config = SelfAttentiveConfig.from_pretrained(tmp_path, **labels)
    assert config.problem_type == "regression"


def test_config_refuses_one_label_of_which_each_text_has_one(tmp_path: Path) -> None:
    """There is nothing to learn, and transformers would not load what was saved."""
    problem = "single_label_classification"
    tiny.tiny_config(num_labels=3, problem_type=problem).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=problem):
        SelfAttentiveConfig.from_pretrained(tmp_path, num_labels=1)


@pytest.mark.parametrize(
    "names",
    [
        {"id2label": {0: "bad", 1: "good"}},
        {"label2id": {"bad": 0, "good": 1}},
        {"id2label": {"0": "bad", "1": "good"}, "label2id": None},
        {"id2label": {}, "label2id": {"bad": 0, "good": 1}},
        {"id2label": {0: "bad", 1: "good"}, "num_labels": 3},
        {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": "0", "good": "1"}},
    ],
)
def test_config_derives_one_label_map_from_the_other(names: Any, tmp_path: Path) -> None:
    """Otherwise a checkpoint loaded with other names could not be saved again."""
    tiny.tiny_config(num_labels=3).save_pretrained(tmp_path)
    SelfAttentiveConfig.from_pretrained(tmp_path, **names).save_pretrained(tmp_path)
    config = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert (config.id2label, config.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


CONTRADICTION: dict[str, Any] = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 1, "b": 0}}


def contradicting_file(folder: Path) -> SelfAttentiveConfig:
    written = tiny.tiny_config().to_dict() | CONTRADICTION
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")
    return SelfAttentiveConfig.from_pretrained(folder)


def contradicting_overrides(folder: Path) -> SelfAttentiveConfig:
    tiny.tiny_config().save_pretrained(folder)
    return SelfAttentiveConfig.from_pretrained(folder, **CONTRADICTION)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: SelfAttentiveConfig(**CONTRADICTION),
        contradicting_file,
        contradicting_overrides,
    ],
    ids=["arguments", "file", "overrides"],
)
def test_config_refuses_label_maps_that_contradict_one_another(
    make: Callable[[Path], SelfAttentiveConfig], tmp_path: Path
) -> None:
    with pytest.raises(
        StrictDataclassClassValidationError,
        match=r"label2id is .*'a': 1.* but id2label is .*; set id2l",
    ):
        make(tmp_path)


def rename_whole(config: SelfAttentiveConfig) -> None:
    config.id2label = {0: "bad", 1: "good"}


def rename_with_ids_as_text(config: SelfAttentiveConfig) -> None:
    config.id2label = {"0": "bad", "1": "good"}


def rename_both(config: SelfAttentiveConfig) -> None:
    rename_whole(config)
    config.label2id = {"good": 1, "bad": 0}


@pytest.mark.parametrize("rename", [rename_whole, rename_with_ids_as_text, rename_both])
@pytest.mark.parametrize("labels", [{"num_labels": 2}, {"id2label": {0: "x", 1: "y"}}], ids=str)
def test_config_with_renamed_labels_can_be_saved(
    labels: dict[str, Any], rename: Callable[[SelfAttentiveConfig], None], tmp_path: Path
) -> None:
    tiny.tiny_config(**labels).save_pretrained(tmp_path)
    config = SelfAttentiveConfig.from_pretrained(tmp_path)
    rename(config)
    config.save_pretrained(tmp_path)
    assert config.label2id == {"bad": 0, "good": 1}
    assert list(config.id2label or ()) == [0, 1], "readers take the names in this order"
    loaded = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert (loaded.id2label, loaded.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


@pytest.mark.parametrize("name", ["id2label", "label2id"])
def test_config_refuses_labels_that_were_edited_in_place(name: str, tmp_path: Path) -> None:
    """Otherwise one of the two maps would be lost without a word."""
    config = tiny.tiny_config(id2label={0: "bad", 1: "good"})
    labels: dict[Any, Any] = getattr(config, name)
    labels |= {0: "evil"} if name == "id2label" else {"bad": 1}
    with pytest.raises(StrictDataclassClassValidationError, match="set id2label whole, and"):
        config.save_pretrained(tmp_path)


@pytest.mark.parametrize("config_class", [SelfAttentiveConfig, RNNSearchConfig])
def test_help_of_a_config_describes_every_field_with_its_default(
    config_class: type[PreTrainedConfig],
) -> None:
    text = str(config_class.__doc__)
    fields = config_class.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
    for name in fields - {"is_encoder_decoder", "tie_word_embeddings"}:
        default = re.escape(repr(getattr(config_class, name)))
        assert re.search(rf"\n    {name}: .+ Default: {default}", text), name
