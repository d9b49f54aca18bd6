"""The translation part of scripts/benchmark.py."""

from argparse import Namespace

import pytest
import torch
from benchmarking import translation
from benchmarking.plain_seq2seq import PlainSeq2Seq

from sase_hf import RNNSearchConfig


def test_benchmark_of_translation_compares_training_greedy_and_beam_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the plain model, and the beam per hypothesis against greedy search."""
    monkeypatch.setattr(translation, "FIELDS", dict.fromkeys(translation.FIELDS, 8))
    monkeypatch.setattr(translation, "BATCH_SIZE", 3)
    flags = Namespace(seed=0, device="cpu", rounds=2, seconds=1.0)
    training, translating = translation.translation(flags)
    assert set(training["settings"]) == {translation.PLAIN, translation.OURS}
    rows = translating["settings"]
    assert set(rows) == {translation.PLAIN, translation.OURS, translation.BEAM}
    assert all(row["sentences_per_second"]["median"] > 0 for row in rows.values())
    beam, greedy = rows[translation.BEAM], rows[translation.OURS]
    ratio = beam["seconds"]["median"] / greedy["seconds"]["median"] / translation.NUM_BEAMS
    assert beam["times_greedy_per_hypothesis"]["median"] == pytest.approx(ratio, rel=0.5)


def test_plain_seq2seq_reads_no_padding() -> None:
    """What it is compared with must do the same work right."""
    plain = PlainSeq2Seq(RNNSearchConfig(**dict.fromkeys(translation.FIELDS, 8))).eval()
    ids, mask = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 1, 1, 0]])
    labels = torch.tensor([[3, 4]])
    torch.testing.assert_close(
        plain(ids, mask, labels), plain(ids[:, :3], mask[:, :3], labels), rtol=1e-5, atol=1e-6
    )
