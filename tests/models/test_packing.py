"""The packing of a batch without padding, which needs no indices, beside the general one."""

import pytest
import torch
from torch import Tensor

from sase_hf.models.packing_self_attentive import DensePacking, Packing, packing_of


@pytest.fixture(params=[(1, 7), (3, 5), (4, 1)])
def mask(request: pytest.FixtureRequest) -> Tensor:
    return torch.ones(request.param, dtype=torch.bool)


def test_dense_packing_moves_tokens_as_the_general_one_does(mask: Tensor) -> None:
    dense = packing_of(mask)
    general = Packing(mask)
    assert isinstance(dense, DensePacking)
    batch, length = mask.shape
    x = torch.randn(batch, length, 3)
    packed = general.pack(x)
    pairs = torch.randn(batch, length, length)
    for ours, theirs in (
        (dense.pack(x), packed),
        (dense.unpack(packed), general.unpack(packed)),
        (dense.mirror(packed), general.mirror(packed)),
        (dense.pack_rows(x), general.pack_rows(x)),
        (dense.restore(x), general.restore(x)),
        (dense.restore_pairs(pairs), general.restore_pairs(pairs)),
        (dense.windows(packed, [-2, 0, 1]), general.windows(packed, [-2, 0, 1])),
    ):
        assert torch.equal(ours, theirs)


def test_dense_packing_describes_the_batch_as_the_general_one_does(mask: Tensor) -> None:
    dense = packing_of(mask)
    general = Packing(mask)
    for name in ("order", "real"):
        assert torch.equal(getattr(dense, name), getattr(general, name)), name
    for name in ("blocks", "spare", "lengths"):
        assert getattr(dense, name) == getattr(general, name), name
    assert torch.equal(dense.repeats, general.repeats)


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([[1, 1, 0], [1, 1, 1]]).bool(),
        torch.ones(0, 3, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.bool, device="meta"),
    ],
    ids=["padding", "no texts", "no values"],
)
def test_packing_of_other_batches_is_the_general_one(mask: Tensor) -> None:
    assert not isinstance(packing_of(mask), DensePacking)


def test_packing_of_half_precision_has_spare_positions() -> None:
    """Each new length would compile code anew; autocast decides as the weights do."""
    mask = torch.ones(1, 33, dtype=torch.bool)
    assert packing_of(mask, torch.bfloat16).spare
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert packing_of(mask).spare


def test_packing_has_no_step_beyond_the_limit_where_lengths_are_unknown() -> None:
    """On an accelerator, whose place a device without values takes."""
    mask = torch.ones(2, 9, dtype=torch.bool, device="meta")
    assert Packing(mask, limit=4).real.shape == (2, 4)
    assert Packing(mask).real.shape == (2, 9)
