"""The rows of a batch: where its tokens are moved, and when texts are read in parts."""

import pytest
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveModel
from sase_hf.models import layers_self_attentive
from sase_hf.models.layers_self_attentive import parts_of_like_length


def _mask(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def test_texts_are_read_in_parts_where_that_spares_much_padding() -> None:
    parts = parts_of_like_length(_mask(*[9, 600] * 8))
    assert [part.tolist() for part in parts] == [[*range(1, 16, 2)], [*range(0, 16, 2)]]
    assert not parts_of_like_length(_mask(7))
    for lengths in ([590, 600] * 8, [20, 22, 5]):
        [whole] = parts_of_like_length(_mask(*lengths))
        assert sorted(whole.tolist()) == [*range(len(lengths))]


def test_parts_change_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"encoder": "relation_network", "relation_weights": "softmax"}
    model = tiny.tiny_model(SelfAttentiveModel, **fields)
    batch = {
        "inputs_embeds": torch.randn(20, 90, 6),
        "attention_mask": _mask(*[3, 90] * 10),
        "rationale": torch.ones(20, 90),
    }
    asked = {"output_attentions": True, "output_hidden_states": True}
    in_parts = model(**batch, **asked)
    monkeypatch.setattr(layers_self_attentive, "TOKENS_FOR_PART", 10**9)
    at_once = model(**batch, **asked)
    assert in_parts.keys() == at_once.keys()
    torch.testing.assert_close(in_parts.to_tuple(), at_once.to_tuple(), **tiny.TOLERANCE)
