"""The config: derived numbers, refused values, label maps, saving and loading."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import tiny
from checkpoints import change_json
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from transformers import AutoConfig, PreTrainedConfig

from sase_hf import RNNSearchConfig, SelfAttentiveConfig


@pytest.mark.parametrize(
    "field", ["encoder", "pooling", "penalty", "attention_function", "classifier", "matching"]
)
def test_choices_of_the_config_are_all_in_the_lists_of_the_tests(field: str) -> None:
    """A new encoder, pooling or head is compared with the reference, and runs in each model."""
    listed = (tiny.ON_BERT, *tiny.ARCHITECTURES, *(fields for _, fields in tiny.OWN_MODELS))
    choices = get_args(SelfAttentiveConfig.__annotations__[field])
    default = getattr(SelfAttentiveConfig(), field)
    assert {fields.get(field, default) for fields in listed} == {*choices}


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
    ],
    ids=str,
)
def test_config_of_a_file_refuses_unknown_choices_and_types(
    field: dict[str, Any], tmp_path: Path
) -> None:
    SelfAttentiveConfig().save_pretrained(tmp_path)
    change_json(tmp_path / "config.json", **field)
    with pytest.raises(StrictDataclassFieldValidationError, match=r"pooling|num_hops|enc|archi"):
        AutoConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"num_hops": 0}, "num_hops is 0; it must be from 1 to"),
        ({"cnn_kernel_sizes": [3, 1025]}, r"cnn_kernel_sizes is .3, 1025.; .* from 1 to 1024"),
        ({"cnn_kernel_sizes": ()}, r"cnn_kernel_sizes is \(\); it must be from 1 to 1024"),
        ({"rationale_coef": math.inf}, "rationale_coef is inf; it must be from 0 to 1000"),
        ({"pad_token_id": 23, "vocab_size": 23}, "pad_token_id is 23; .* from 0 to 22"),
        ({"encoder": "cnn", "pooling": "last"}, "pooling is 'last'.* encoder is 'cnn'"),
        ({"relation_window": 3}, "relation_window is 3.* encoder is 'bilstm'"),
        ({"lstm_shortcuts": True}, "lstm_shortcuts is True.* num_lstm_layers is 1"),
        ({"id2label": {0: "a", 2: "b"}}, "id2label is .*each id from 0 to 1"),
        ({"num_labels": 1, "label_smoothing": 0.1}, "label_smoothing is 0.1.*'regression'"),
        ({"num_labels": 3, "class_weights": [1, 2]}, "class_weights is .* 3 labels"),
        ({"target_mean": [0, 1]}, "target_mean is .* target_mean must be None"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_config_refuses_what_no_model_can_have(field: dict[str, Any], message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        SelfAttentiveConfig(**field)


def test_config_of_an_encoder_keeps_only_fields_of_its_class(tmp_path: Path) -> None:
    """What names code or files, or how to attend, is the loader's choice and not the file's."""
    hostile = {
        "auto_map": {"AutoModel": "someone/else--modeling.Model"},
        "attn_implementation": "someone/kernel",
        "_attn_implementation": "someone/kernel",
        "quantization_config": {"quant_method": "gptq"},
        "_name_or_path": "someone/else",
    }
    tiny.tiny_config(**tiny.ON_BERT).save_pretrained(tmp_path)
    given = {"attn_implementation": "someone/kernel", "encoder_config": hostile}
    change_json(tmp_path / "config.json", **given)
    config = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert "someone" not in json.dumps(config.to_dict())
    assert config._attn_implementation is config.encoder_config._attn_implementation is None
    assert not hasattr(config.encoder_config, "quantization_config")


@pytest.mark.parametrize("count", [2**16 + 1, 0])
def test_config_refuses_a_number_of_labels_before_it_names_each(count: int) -> None:
    message = rf"num_labels is {count}; give an integer from 1 to 65536, or id2label"
    with pytest.raises(ValueError, match=message):
        SelfAttentiveConfig(num_labels=count)
    with pytest.raises(ValueError, match=message):
        RNNSearchConfig().num_labels = count


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
    "names", [{"id2label": {"0": "bad", "1": "good"}}, {"label2id": {"bad": 0, "good": 1}}]
)
def test_config_derives_one_label_map_from_the_other(names: Any, tmp_path: Path) -> None:
    """Otherwise a checkpoint loaded with other names could not be saved again."""
    tiny.tiny_config(num_labels=3).save_pretrained(tmp_path)
    SelfAttentiveConfig.from_pretrained(tmp_path, **names).save_pretrained(tmp_path)
    config = SelfAttentiveConfig.from_pretrained(tmp_path)
    assert (config.id2label, config.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


CONTRADICTION: dict[str, Any] = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 1, "b": 0}}


def test_config_refuses_label_maps_that_contradict_one_another(tmp_path: Path) -> None:
    refused = pytest.raises(StrictDataclassClassValidationError, match=r"label2id is .*'a': 1")
    with refused:
        SelfAttentiveConfig(**CONTRADICTION)
    written = tiny.tiny_config().to_dict() | CONTRADICTION
    (tmp_path / "config.json").write_text(json.dumps(written), encoding="utf-8")
    with refused:
        SelfAttentiveConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["id2label", "label2id"])
def test_config_refuses_labels_that_were_edited_in_place(name: str, tmp_path: Path) -> None:
    """Otherwise one of the two maps would be lost without a word."""
    config = tiny.tiny_config(id2label={0: "bad", 1: "good"})
    labels = getattr(config, name)
    labels |= {0: "evil"} if name == "id2label" else {"bad": 1}
    with pytest.raises(StrictDataclassClassValidationError, match="set id2label whole, and"):
        config.save_pretrained(tmp_path)
