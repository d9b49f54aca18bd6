"""What every test gets: no network, a fixed seed, a process-wide state left as it was found."""

import os
from collections.abc import Iterator

# Read when huggingface_hub is imported, so set before any test module imports it.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

from sase_hf import packing_self_attentive


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start every test from the same random state, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the LSTM read a batch in many blocks, for which tests have too few and short texts."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", 0)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fill fresh memory with NaN, so that a tensor nobody initialised is seen at once."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
