"""The weights: how they start, how they come back, and which of them never move."""

import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)
from sase_hf.models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel

HEADS = (SelfAttentiveForSequenceClassification, SelfAttentiveForNLI)
NAME = "model.safetensors"
VARIANTS = [
    (SelfAttentiveModel, {"num_lstm_layers": 2}),
    *(
        (SelfAttentiveModel, {**encoder, "num_lstm_layers": 2, "pooling": "generalized"})
        for encoder in tiny.ENCODERS[1:]
    ),
    (SelfAttentiveForSequenceClassification, {"classifier": "mlp"}),
    (SelfAttentiveForSequenceClassification, {"classifier": "pruned_mlp"}),
    (SelfAttentiveForNLI, {"matching": "gated", "classifier": "pruned_mlp"}),
    (SelfAttentiveForNLI, {"matching": "concat"}),
]
# Enough numbers in each matrix for the largest of them to come near its bound.
MANY = {"num_hops": 12, "num_labels": 6, "embedding_size": 12}
every_model = pytest.mark.parametrize(("model_class", "fields"), VARIANTS)


def step(model: SelfAttentivePreTrainedModel, texts: int = 4) -> None:
    """Train once, with every id, padding beside the words, and weight decay on everything."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    words = list(range(1, tiny.VOCAB_SIZE))
    batch = tiny.pair_batch([(words, words[:count]) for count in range(1, texts + 1)])
    batch["input_ids"][batch["attention_mask"] == 0] = 0
    if isinstance(model, SelfAttentiveModel):
        model(**batch).sentence_embedding.square().sum().backward()
    else:
        model(**batch, labels=torch.arange(texts) % 2).loss.backward()
    optimizer.step()


def assert_freshly_initialised(model: SelfAttentivePreTrainedModel, only: set[str]) -> None:
    """Check that the named weights look like those of a new model: Glorot uniform, zero biases."""
    for name, weight in model.named_parameters():
        if name not in only:
            continue
        if "bias" in name:
            assert weight.abs().max() == 0, name
        elif name.endswith("embeddings.weight"):
            assert weight[0].abs().max() == 0, "the row of padding"
            assert 0.5 < weight[1:].std() / model.config.initializer_range < 1.5, name
        else:  # every matrix of a stack has its own two sides
            bound = math.sqrt(6 / sum(weight.shape[-2:]))
            assert 0.8 * bound < weight.abs().max() <= bound, name


@every_model
def test_a_new_model_starts_glorot_uniform(model_class: type, fields: dict[str, Any]) -> None:
    """Each hop's matrix in a stack is scaled by its own two sides, as if it stood alone."""
    model = model_class(tiny.tiny_config(**MANY, **fields))
    assert_freshly_initialised(model, {name for name, _ in model.named_parameters()})


@every_model
def test_weights_missing_in_a_checkpoint_start_like_new_ones(
    model_class: type, fields: dict[str, Any], tmp_path: Path, poisoned_memory: None
) -> None:
    """`from_pretrained` builds on the meta device: what it does not find is bare memory at first.

    Every second weight is taken out of the file, the others must come back as saved.
    """
    saved = tiny.tiny_model(model_class, **MANY, **fields)
    saved.save_pretrained(tmp_path)
    names = sorted(dict(saved.named_parameters()))
    for missing in (set(names[::2]), set(names[1::2])):
        kept = {name: w for name, w in saved.state_dict().items() if name not in missing}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        model = model_class.from_pretrained(tmp_path)
        assert_freshly_initialised(model, missing)
        for name, weight in kept.items():
            assert torch.equal(model.state_dict()[name], weight)


@pytest.mark.parametrize("head", HEADS)
def test_head_starts_from_a_base_model_and_gives_it_back(head: type, tmp_path: Path) -> None:
    """The weights of the encoder go both ways; only a base model leaves unknown weights out."""
    base = tiny.tiny_model(SelfAttentiveModel)
    base.save_pretrained(tmp_path / "base")
    model = head.from_pretrained(tmp_path / "base")
    model.save_pretrained(tmp_path / "head")
    again, loaded = SelfAttentiveModel.from_pretrained(tmp_path / "head", output_loading_info=True)
    assert not loaded["unexpected_keys"], "transformers would print a report of them"
    save_file({**model.state_dict(), "classifier.b": torch.ones(1)}, tmp_path / "head" / NAME)
    _, loaded = head.from_pretrained(tmp_path / "head", output_loading_info=True)
    assert loaded["unexpected_keys"] == {"classifier.b"}
    for name, weight in base.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], weight)
        assert torch.equal(again.state_dict()[name], weight)


@every_model
def test_loading_gives_back_what_was_saved(
    model_class: type, fields: dict[str, Any], tmp_path: Path
) -> None:
    """Bit by bit, in evaluation mode, and in the precision of the file."""
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny.tiny_model(model_class, **fields).to(dtype)
        model.save_pretrained(tmp_path)
        loaded = model_class.from_pretrained(tmp_path)
        assert not loaded.training
        assert loaded.dtype == dtype
        assert loaded.state_dict().keys() == load_file(tmp_path / "model.safetensors").keys()
        for name, weight in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], weight)


# Word vectors


def word_vectors(model: SelfAttentivePreTrainedModel) -> nn.Parameter:
    """Return the embedding matrix of a base model or a head."""
    return model.get_input_embeddings().weight


@pytest.mark.parametrize(
    "names",
    [
        {"id2label": {0: "bad", 1: "good"}},
        {"label2id": {"bad": 0, "good": 1}},
        {"id2label": {"0": "bad", "1": "good"}, "label2id": None},
        {"id2label": {}, "label2id": {"bad": 0, "good": 1}},
        {"id2label": {0: "bad", 1: "good"}, "num_labels": 3},
    ],
)
def test_one_map_of_label_names_is_enough_for_a_checkpoint(names: Any, tmp_path: Path) -> None:
    """The other one follows; else the model could not be saved again."""
    model = SelfAttentiveForSequenceClassification(tiny.tiny_config())
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path, **names)
    loaded.save_pretrained(tmp_path / "again")
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "again").config
    assert (config.id2label, config.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


@pytest.mark.parametrize(
    "names", [{"id2label": ["bad", "good"]}, {"id2label": {0: 1, 1: 2}}, {"label2id": {1: 0}}]
)
def test_names_of_labels_that_a_file_could_not_give_back_are_refused(
    names: Any, tmp_path: Path
) -> None:
    """JSON makes text of a number that is a key: the trained model could not be loaded again."""
    tiny.tiny_config().save_pretrained(tmp_path)
    refused = "(id2label|label2id)' with value .*dict"
    with pytest.raises(StrictDataclassFieldValidationError, match=refused):
        SelfAttentiveConfig(**names)
    with pytest.raises(StrictDataclassFieldValidationError, match=refused):
        SelfAttentiveConfig.from_pretrained(tmp_path, **names)


def test_overrides_of_a_checkpoint_are_judged_together(tmp_path: Path) -> None:
    """Not one by one against what the others are about to replace."""
    tiny.tiny_config(problem_type="single_label_classification").save_pretrained(tmp_path)
    changes = {"hidden_size": 18, "id2label": {0: "score"}, "problem_type": "regression"}
    config = SelfAttentiveConfig.from_pretrained(tmp_path, **changes, lstm_hidden_size=9)
    assert (config.num_labels, config.problem_type, config.hidden_size) == (1, "regression", 18)


def test_what_no_model_can_have_is_refused_when_a_checkpoint_is_loaded(tmp_path: Path) -> None:
    """Not when it is saved, after training."""
    SelfAttentiveForSequenceClassification(tiny.tiny_config()).save_pretrained(tmp_path)
    with pytest.raises(
        StrictDataclassClassValidationError, match=r"penalty_coef is -1\.0; it must"
    ):
        AutoModelForSequenceClassification.from_pretrained(tmp_path, penalty_coef=-1.0)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("model_class", [SelfAttentiveModel, *HEADS])
def test_frozen_word_vectors_stay_as_they_are(
    model_class: type, frozen: bool, tmp_path: Path
) -> None:
    """New, reloaded by class and by Auto class: no gradient, no step, no weight decay."""
    new = model_class(tiny.tiny_config(freeze_embeddings=frozen, num_labels=2))
    new.save_pretrained(tmp_path)
    auto = AutoModel if model_class is SelfAttentiveModel else AutoModelForSequenceClassification
    for model in (new, model_class.from_pretrained(tmp_path), auto.from_pretrained(tmp_path)):
        assert type(model) is model_class
        assert word_vectors(model).requires_grad is not frozen
        before = word_vectors(model).detach().clone()
        step(model.train())
        assert torch.equal(word_vectors(model)[1:], before[1:]) is frozen
        assert all(p.requires_grad for p in model.parameters() if p is not word_vectors(model))


@pytest.mark.parametrize("model_class", [SelfAttentiveModel, *HEADS])
def test_the_row_of_padding_stays_zero(model_class: type, tmp_path: Path) -> None:
    """In training with weight decay, after a reload, and in a larger vocabulary."""
    model = model_class(tiny.tiny_config(num_labels=2)).train()
    step(model)
    assert word_vectors(model)[0].abs().max() == 0
    model.save_pretrained(tmp_path)
    model = model_class.from_pretrained(tmp_path).train()
    model.resize_token_embeddings(tiny.VOCAB_SIZE + 4)
    step(model)
    assert word_vectors(model)[0].abs().max() == 0


@pytest.mark.parametrize("new_size", [tiny.VOCAB_SIZE + 9, tiny.VOCAB_SIZE - 5])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("model_class", [SelfAttentiveModel, *HEADS])
def test_the_vocabulary_can_be_resized_saved_and_loaded(
    model_class: type, frozen: bool, new_size: int, tmp_path: Path
) -> None:
    """Old words keep their vectors, the config knows the new size, frozen remains frozen."""
    model = tiny.tiny_model(model_class, freeze_embeddings=frozen)
    kept = min(new_size, tiny.VOCAB_SIZE)
    before = word_vectors(model).detach().clone()
    model.resize_token_embeddings(new_size)
    assert model.config.vocab_size == new_size
    assert word_vectors(model).requires_grad is not frozen

    model.save_pretrained(tmp_path)
    loaded = model_class.from_pretrained(tmp_path)
    assert word_vectors(loaded).shape == (new_size, 6)
    assert torch.equal(word_vectors(loaded)[:kept], before[:kept])
    assert loaded.get_input_embeddings().padding_idx == 0
    assert word_vectors(loaded).requires_grad is not frozen
    newest_word = torch.tensor([[new_size - 1, 1]])
    assert loaded(newest_word, token_type_ids=torch.tensor([[0, 1]])).penalty.isfinite().all()


def test_a_vocabulary_without_padding_has_no_row_of_zeros() -> None:
    """`pad_token_id=None`: every row is a word's, the first one too."""
    model = SelfAttentiveModel(tiny.tiny_config(pad_token_id=None))
    assert word_vectors(model)[0].abs().min() > 0
    model(torch.tensor([[0, 1]])).sentence_embedding.sum().backward()
    assert word_vectors(model).grad[0].abs().min() > 0
