"""The attention as a layer: on the states of any model, and on the states of any encoder."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import reference
import tiny
import torch
from checkpoints import change_json, change_weights
from isolated import run_isolated
from runs import train_tiny, weights, write_splits
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModel, pipeline

from sase_hf import (
    SelfAttention,
    SelfAttentiveModel,
    build_on_encoder,
    build_tokenizer,
)
from sase_hf.models.configuration_self_attentive import INNER_TYPES
from sase_hf.models.layers_self_attentive import AutoModelEncoder
from sase_hf.utils.loading import load_any_model

WORDS = (
    "the a meal room was were and but not very service table cold warm slow quick poor fine great"
)
# As in its config.json; three of these its config class does not declare.
DEBERTA_V3 = {
    "relative_attention": True,
    "position_buckets": 4,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "type_vocab_size": 0,
}


def bert(**fields: Any) -> Any:
    torch.manual_seed(0)
    return AutoModel.from_config(AutoConfig.for_model(**{**tiny.BERT, **fields})).eval()


@pytest.mark.parametrize("fields", [{}, tiny.PAPER], ids=tiny.name_of)
def test_layer_on_the_states_of_bert_is_the_references(fields: dict[str, Any]) -> None:
    """Whatever stands on padding, right, left and in holes."""
    model, layer = bert(), SelfAttention(8, 5, 3, **fields)
    mask = tiny.MASK.long()
    states = model(torch.randint(1, 23, mask.shape), mask).last_hidden_state
    states = states.masked_fill(mask.unsqueeze(-1) == 0, torch.nan)
    matrix, attention, penalty = layer(states, mask)
    own = {name: weight.double() for name, weight in layer.pooling.state_dict().items()}
    for row, real in enumerate(tiny.MASK[:-1]):
        H = states[row, real].double()
        A = reference.attention(H, own, layer.config)
        measure = reference.penalty if fields else reference.cosine_penalty
        tiny.assert_agree(attention[row][:, real], A)
        tiny.assert_agree(matrix[row], A @ H)
        tiny.assert_agree(penalty[row], measure(A))
    assert attention.masked_select(~tiny.MASK.unsqueeze(1)).abs().max() == 0
    assert matrix[-1].abs().max() == 0, "no tokens, no sentence"


def test_layer_without_a_mask_reads_all_and_trains_what_is_below() -> None:
    layer, states = SelfAttention(8, 5, 3), torch.randn(2, 6, 8, requires_grad=True)
    found = layer(states)
    for way in (layer, torch.compile(layer, backend="eager", fullgraph=True)):
        torch.testing.assert_close(found, way(states, torch.ones(2, 6)))
    (found[0].square().mean() + 0.1 * found[2].mean()).backward()
    assert all(weight.grad.any() for weight in [states, *layer.parameters()])
    with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 5\)"):
        layer(states, torch.ones(2, 5))


@pytest.mark.parametrize(
    ("model_type", "fields"), [*((name, {}) for name in INNER_TYPES), ("deberta-v2", DEBERTA_V3)]
)
def test_encoder_of_transformers_is_read_as_by_itself(
    model_type: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    """The states of a padded row are those that the model alone makes of the ids."""
    sizes = {k: v for k, v in tiny.BERT.items() if k not in ("model_type", "vocab_size")}
    small = {"vocab_size": 60, "embedding_size": 8, "pad_token_id": 0, **sizes}
    if model_type == "distilbert":
        small |= {"dim": 8, "hidden_dim": 12, "n_heads": 2, "n_layers": 2}
    known = AutoConfig.for_model(model_type)
    small = {k: v for k, v in small.items() if hasattr(known, k)}
    inner = AutoModel.from_config(AutoConfig.for_model(model_type, **small, **fields)).eval()
    inner.save_pretrained(tmp_path)
    model = build_on_encoder(SelfAttentiveModel, str(tmp_path), num_hops=3).eval()
    ids = torch.randint(4, 60, (2, 7))
    mask = torch.tensor([[0, 0, 1, 1, 0, 1, 1], [1] * 7])
    states = model(ids, mask).last_hidden_state
    for row, real in enumerate(mask.bool()):
        alone = inner(ids[row : row + 1, real]).last_hidden_state[0]
        torch.testing.assert_close(states[row, real], alone, **tiny.TOLERANCE)
    model.train()(ids, mask).sentence_embedding.square().sum().backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not missing, "every weight is trained, as several processes need it"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pretrained encoder: weights, and a tokenizer that adds tokens of its own."""
    folder = tmp_path_factory.mktemp("bert")
    tokenizer = build_tokenizer(WORDS.split())
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    added = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=added
    )
    tokenizer.save_pretrained(folder)
    bert(vocab_size=len(tokenizer)).save_pretrained(folder)
    return folder


def test_training_on_a_pretrained_encoder_leaves_a_whole_checkpoint(
    encoder: Path, tmp_path: Path
) -> None:
    """It learns, changes the encoder too, and never looks for the pretrained one again."""
    moved = encoder.rename(tmp_path / "bert")
    folder = tmp_path / "run"
    outcome = train_tiny(
        folder,
        **write_splits(tmp_path),
        do_eval=True,
        encoder_name_or_path=moved,
        embedding_size=None,
        freeze_embeddings=False,
        num_train_epochs=15,
        learning_rate=0.01,
        per_device_train_batch_size=8,
        embedding_dropout=0.0,
        classifier_dropout=0.0,
        save_strategy="no",
    )
    moved.rename(encoder)
    assert outcome["metrics"]["eval_accuracy"] > 0.9
    assert str(tmp_path) not in (folder / "config.json").read_text(encoding="utf-8")
    name = "encoder.layer.0.output.dense.weight"
    trained = weights(folder)[f"encoder.token_encoder.model.{name}"]
    assert not torch.equal(trained, AutoModel.from_pretrained(encoder).state_dict()[name])
    result = pipeline("self-attention", model=folder)("The meal was great")
    assert result["label"] == "great"
    assert result["tokens"] == ["[CLS]", "The", "meal", "was", "great", "[SEP]"]
    code = (
        "import sys; sys.modules['sase_hf'] = None\n"
        "from transformers import pipeline\n"
        f"explain = pipeline('self-attention', {str(folder)!r}, trust_remote_code=True)\n"
        "print(explain('The meal was great')['attention'])"
    )
    assert json.loads(run_isolated(["-c", code], tmp_path)) == result["attention"]


def test_frozen_encoder_stays_and_reads_each_text_once(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows freeze it; hops, words and its mean state learn to answer."""
    texts_read = []
    forward = AutoModelEncoder.forward

    def counting(self: AutoModelEncoder, x: torch.Tensor, rows: Any) -> list[torch.Tensor]:
        texts_read.append(len(x))
        return forward(self, x, rows)

    monkeypatch.setattr(AutoModelEncoder, "forward", counting)
    outcome = train_tiny(
        tmp_path / "run",
        **write_splits(tmp_path),
        do_eval=True,
        calibrate=True,
        encoder_name_or_path=encoder,
        embedding_size=None,
        embedding_dropout=0.0,
        learning_rate=0,
        num_train_epochs=3,
        save_strategy="no",
    )
    splits = outcome["setup"].rows.splits
    texts = {*splits["train"]["text"], *splits["validation"]["text"]}
    assert sum(texts_read) <= len(texts) + 3  # the card explains some answers afterwards
    assert outcome["record"]["arguments"]["learning_rate"] == 1e-3
    found = weights(tmp_path / "run")
    name = "encoder.layer.0.output.dense.weight"
    pretrained = AutoModel.from_pretrained(encoder).state_dict()[name]
    torch.testing.assert_close(found[f"encoder.token_encoder.model.{name}"], pretrained)
    assert found["linear_part.state_weight"].any()
    assert found["linear_part.word_weight"].any()


@pytest.mark.parametrize(
    ("fields", "longest"),
    [({}, 64), ({"model_type": "roberta", "pad_token_id": 1}, 62)],  # RoBERTa counts from 2
)
def test_a_model_reads_at_most_as_many_tokens_as_its_encoder(
    fields: dict[str, Any], longest: int
) -> None:
    inner = {"encoder_config": {**tiny.BERT, **fields}}
    model = tiny.tiny_model(SelfAttentiveModel, **{**tiny.ON_BERT, **inner})
    assert model.config.max_tokens == longest
    found = [model(torch.full((1, n), 3)).sentence_embedding for n in (longest, longest + 1)]
    torch.testing.assert_close(*found)


def test_load_any_model_refuses_what_own_checkpoints_must_not_be(
    encoder: Path, tmp_path: Path
) -> None:
    """Random layers in the place of pretrained ones, and NaN, would go unnoticed."""
    model = AutoModel.from_pretrained(encoder)
    model.config.num_hidden_layers = 3
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"^cannot load .*misses weights: encoder\.layer\.2"):
        build_on_encoder(SelfAttentiveModel, str(tmp_path))
    model.config.num_hidden_layers = 2
    model.config.save_pretrained(tmp_path)
    change_json(tmp_path / "config.json", attn_implementation="someone/kernel")
    assert load_any_model(tmp_path).config._attn_implementation == "eager"
    change_weights(tmp_path, lambda found: found["embeddings.LayerNorm.bias"].fill_(math.inf))
    with pytest.raises(ValueError, match=r"not finite in .*: embeddings\.LayerNorm"):
        build_on_encoder(SelfAttentiveModel, str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"^cannot load .*no file named model\.safetensors"):
        build_on_encoder(SelfAttentiveModel, str(tmp_path))
