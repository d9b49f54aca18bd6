"""The packing: real tokens in one sequence, their neighbours there, and the way back."""

import pytest
import tiny
import torch

from sase_hf.models import packing_self_attentive
from sase_hf.models.packing_self_attentive import Packing, dense_blocks


@pytest.mark.parametrize(
    ("cost", "blocks"),
    [(0, [(1, 4), (3, 3), (5, 1)]), (17, [(4, 4), (5, 1)]), (18, [(9, 4)])],
)
def test_dense_blocks_end_where_another_call_pays(
    monkeypatch: pytest.MonkeyPatch, cost: int, blocks: list[tuple[int, int]]
) -> None:
    """By hand: going on from length 1 to 4 reads 3 positions of padding, and to 9 another 15."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", cost)
    assert dense_blocks([9, 4, 4, 1, 0]) == blocks


@pytest.mark.parametrize("cost", tiny.COSTS)
def test_packing_reads_step_by_step_longest_first(
    monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    """The order in which an LSTM can read them as dense blocks; ended sentences drop out."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.arange(25).view(5, 5, 1)
    packing = Packing(tiny.MASK)
    packed = packing.pack(x).flatten().tolist()
    if cost == 0:
        assert packing.blocks == [(2, 4), (1, 3), (2, 1)]
        assert packed == [0, 12, 16, 5, 1, 13, 18, 6, 2, 14, 19, 3, 4]
    else:  # sentences that have ended repeat their last token
        assert packing.blocks == [(5, 4)]
        expected = [[0, 12, 16, 5], [1, 13, 18, 6], [2, 14, 19, 6], [3, 14, 19, 6], [4, 14, 19, 6]]
        assert packed == [token for step in expected for token in step]


@pytest.mark.parametrize("cost", tiny.COSTS)
def test_packing_unpacks_restores_and_reverses(monkeypatch: pytest.MonkeyPatch, cost: int) -> None:
    """Rows aligned left, tokens back in place with zeros on padding, and each sentence reversed."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.randn(5, 5, 3)
    packing = Packing(tiny.MASK)
    packed = packing.pack(x)
    rows, mirrored = packing.unpack(packed), packing.unpack(packed[packing.reverse_index])
    assert packing.real.tolist() == [[n > s for s in range(5)] for n in (5, 2, 3, 3, 0)]
    for aligned, turned, row, real in zip(rows, mirrored, x, tiny.MASK, strict=True):
        assert torch.equal(aligned[: real.sum()], row[real])
        assert torch.equal(turned[: real.sum()], row[real].flip(0))
    assert torch.equal(packing.restore(rows), x * tiny.MASK.unsqueeze(-1))
    assert packing.lengths == [5, 3, 3, 2, 0]
    assert torch.equal(packed, rows[packing.order[packing.rank], packing.step])
    assert Packing(tiny.MASK[1:4]).real.shape == (3, 3), "padding shared by all rows is cut off"


def test_packing_has_few_lengths_in_half_precision() -> None:
    """So that oneDNN, which keeps the code that it compiles for each, does not fill the memory."""
    positions, steps = set(), set()
    for length in range(1, 1025):
        mask = torch.arange(length) < torch.tensor([[length], [length // 3]])
        packing = Packing(mask, torch.bfloat16)
        assert len(packing.rank) <= max(sum(s * rows for s, rows in packing.blocks) * 17 / 16, 31)
        assert packing.real.sum() == length + length // 3
        assert Packing(mask).spare == 0
        positions.add(len(packing.rank))
        steps.add(packing.real.shape[1])
    assert len(steps) == 31 + 5 * 16 + 1, "one to 31, and 16 in each octave"
    assert len(positions) <= 31 + 6 * 16 + 1


@pytest.mark.parametrize("cost", tiny.COSTS)
def test_packing_windows_hold_neighbours_and_zeros(
    monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    """By hand: the token before, the token, the second after it, and one that is never there."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.arange(1, 26).view(5, 5, 1)
    packing = Packing(tiny.MASK)
    windows = packing.windows(packing.pack(x), (-1, 0, 2, 7))
    rows = packing.unpack(windows.flatten(1))
    expected = [
        [[0, 1, 3, 0], [1, 2, 4, 0], [2, 3, 5, 0], [3, 4, 0, 0], [4, 5, 0, 0]],
        [[0, 6, 0, 0], [6, 7, 0, 0]],
        [[0, 13, 15, 0], [13, 14, 0, 0], [14, 15, 0, 0]],
        [[0, 17, 20, 0], [17, 19, 0, 0], [19, 20, 0, 0]],
        [],
    ]
    assert windows.shape == (len(packing.rank), 4, 1)
    assert [row[real].tolist() for row, real in zip(rows, packing.real, strict=True)] == expected
