"""The rows of a batch: where its tokens are moved, and when texts are read in parts."""

import sys

import pytest
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveModel
from sase_hf.models import layers_self_attentive
from sase_hf.models.layers_self_attentive import Rows, parts_of_like_length

MASKS = {
    "full": torch.ones(2, 4).bool(),
    "right": torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]).bool(),
    "anywhere": tiny.MASK,
    "empty": torch.zeros(2, 3).bool(),
    "no tokens": torch.zeros(2, 0).bool(),
    "no texts": torch.zeros(0, 3).bool(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MASKS)
def test_rows_move_tokens_to_the_left_and_back(name: str, dtype: torch.dtype) -> None:
    """Read backwards, a text begins with its last token; padding, also NaN, becomes 0."""
    mask = MASKS[name]
    x = torch.randn(*mask.shape, 2).masked_fill(~mask.unsqueeze(-1), torch.nan).to(dtype)
    rows = Rows(mask, dtype)
    left = rows.left(x)
    assert rows.real.shape == left.shape[:2]
    for row, real in enumerate(mask):
        length = int(real.sum())
        assert torch.equal(left[row, :length], x[row, real])
        assert not left[row, length:].any()
        assert torch.equal(rows.mirror(left)[row, :length], x[row, real].flip(0))
        assert rows.real[row].sum() == length
    assert torch.equal(rows.mirror(rows.mirror(left)), left)
    assert torch.equal(rows.back(left), x.nan_to_num(0))


def test_rows_have_windows_that_end_at_the_ends_of_a_text() -> None:
    rows = Rows(torch.tensor([[1, 1, 1], [1, 1, 0]]).bool())
    x = torch.tensor([[1.0, 2, 3], [4, 5, torch.nan]]).unsqueeze(-1)
    windows = rows.windows(x, [-2, 0, 1]).squeeze(-1)
    assert windows[0].tolist() == [[0, 1, 2], [0, 2, 3], [1, 3, 0]]
    assert windows[1, :2].tolist() == [[0, 4, 5], [0, 5, 0]]


def test_rows_of_half_precision_have_few_lengths() -> None:
    """Each new length would compile code anew; autocast decides as the weights do."""

    def lengths(dtype: torch.dtype, limit: int = sys.maxsize) -> set[int]:
        masks = [torch.ones(1, length, dtype=torch.bool) for length in range(256, 512)]
        return {Rows(mask, dtype, limit).real.shape[1] for mask in masks}

    assert len(lengths(torch.bfloat16)) <= 17
    assert len(lengths(torch.float32)) == 256
    assert max(lengths(torch.bfloat16, limit=511)) == 511
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert len(lengths(torch.float32)) <= 17


def test_rows_have_no_step_beyond_the_limit_where_lengths_are_unknown() -> None:
    """On an accelerator, whose place a device without values takes."""
    mask = torch.ones(2, 9, dtype=torch.bool, device="meta")
    assert Rows(mask, limit=4).real.shape == (2, 4)
    assert Rows(mask).real.shape == (2, 9)


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
