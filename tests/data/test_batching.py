"""Which rows share a batch, and the parts a batch is read in."""

import torch
from runs import make_rows

from sase_hf.data.batching import (
    LengthGroupedOrder,
    batches_by_length,
    token_counts,
)

ROWS = make_rows("single_label")


def test_length_grouped_order_depends_on_seed_and_epoch_alone() -> None:
    """Not on the random state, which a resumed run and a second process meet elsewhere."""
    lengths = token_counts(ROWS)
    first, second = (LengthGroupedOrder(lengths, 8, seed=1, batches=None) for _ in range(2))
    torch.manual_seed(5)
    order = list(first)
    assert list(second) == order
    assert sorted(order) == list(range(len(ROWS)))
    second.set_epoch(1)
    assert list(second) != order


def test_batches_by_length_stay_within_their_budget() -> None:
    """A longer row is read alone; short ones share a batch, but not without limit."""
    lengths = [0, 14, 5, 3, 6]
    assert list(batches_by_length(lengths, 12)) == [[1], [4, 2], [3, 0]]
    assert list(batches_by_length(lengths, 1)) == [[1], [4], [2], [3], [0]]
