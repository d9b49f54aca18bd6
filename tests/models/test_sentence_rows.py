"""The rows of a batch: where its tokens are moved, and which texts share one."""

import pytest
import tiny
import torch

from sase_hf import SelfAttentiveModel
from sase_hf.models.layers_self_attentive import Rows

MASK = torch.arange(7) < torch.tensor([3, 7, 1, 5, 2]).unsqueeze(1)
TOKENS = (torch.arange(10, 60).view(5, 10)[:, :7] * MASK).flip(1)  # padding on the left


def test_texts_share_a_row_where_they_fit() -> None:
    rows = Rows(MASK.flip(1))
    packed = rows.packed
    moved = packed.left(rows.left(TOKENS))
    assert moved.tolist() == [
        [26, 25, 24, 23, 22, 21, 20],
        [44, 43, 42, 41, 40, 0, 30],
        [12, 11, 10, 0, 51, 50, 0],
    ]
    assert torch.equal(packed.real, moved > 0)
    assert torch.equal(rows.back(packed.back(moved)), TOKENS)


def test_longer_and_shorter_texts_are_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that spares much; it changes no output."""
    fields = {"encoder": "relation_network", "relation_weights": "softmax"}
    model = tiny.tiny_model(SelfAttentiveModel, **fields)
    lengths = torch.tensor([3, 90, *[2, 1, 0] * 6])
    batch = {
        "inputs_embeds": torch.randn(20, 90, 6),
        "attention_mask": torch.arange(90) < lengths.unsqueeze(1),
        "rationale": torch.ones(20, 90),
    }
    longer, _ = Rows(batch["attention_mask"]).parts()
    assert longer.tolist() == [1]
    assert not Rows(MASK).parts()
    asked = {"output_attentions": True, "output_hidden_states": True}
    apart = model(**batch, **asked)
    monkeypatch.setattr(Rows, "parts", lambda rows: ())
    at_once = model(**batch, **asked)
    assert apart.keys() == at_once.keys()
    torch.testing.assert_close(apart.to_tuple(), at_once.to_tuple(), **tiny.TOLERANCE)
