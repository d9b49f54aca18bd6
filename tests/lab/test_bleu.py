"""scripts/lab/bleu.py: BLEU by the length of the source, and alignments, against counts by hand."""

from typing import Any

import bleu
import pytest
import torch
from tiny_translation import tiny_translator

from sase_hf import build_translation_tokenizer

SOURCES = ["a b c", "d e f g h i", "a z"]


def test_measure_pairs_counts_unknown_words_and_long_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of the source as the translation: BLEU 100 where the reference is the source."""
    tokenizer = build_translation_tokenizer(SOURCES[:2])
    calls: list[Any] = []

    def copy(model: Any, tokenizer: Any, texts: list[str], **options: Any) -> list[str]:
        calls.append((len(texts), options.get("suppress_tokens"), options["num_beams"]))
        return list(texts)

    monkeypatch.setattr(bleu, "translate", copy)
    pairs = list(zip(SOURCES, [*SOURCES[:2], "b"], strict=True))
    model = tiny_translator(vocab_size=len(tokenizer))
    found = bleu.measure_pairs(model, tokenizer, pairs, batch_size=2, num_beams=(1, 3))
    assert calls == [(3, None, 1), (3, None, 3), (2, [1], 1), (2, [1], 3), (2, None, 3)]
    assert found["pairs_no_unk"] == 2
    assert found["bleu_no_unk"] == {"1": pytest.approx(100), "3": pytest.approx(100)}
    assert found["bleu"]["1"] == found["bleu"]["3"] < 99
    groups = [(group["words"], group["pairs"], group["joined"]) for group in found["by_length"]]
    assert groups == [([1, 5], 2, 0), ([6, 10], 2, 1), ([11, 15], 1, 1)]


def test_alignment_statistics_of_a_known_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even rows have entropy 1, sharp ones 0; a step back is not monotonic."""
    tokenizer = build_translation_tokenizer(SOURCES)
    model = tiny_translator(vocab_size=len(tokenizer))
    sharp = torch.eye(4)[[0, 2, 1]]  # for the second row, whose reference has two words and an end
    even = torch.tensor([[0.5, 0.5, 0, 0]]).expand(3, -1)

    def forward(**batch: Any) -> Any:
        assert batch["attention_mask"].sum(1).tolist() == [2, 4]
        assert (batch["labels"] >= 0).sum(1).tolist() == [3, 3]
        return type("Out", (), {"cross_attentions": (torch.stack([even, sharp])[:, None],)})

    monkeypatch.setattr(model, "forward", forward)
    pairs = [("a", "a b"), ("a b c", "b c")]
    found = bleu.alignment_statistics(model, tokenizer, pairs, batch_size=2)
    assert found == {"entropy": pytest.approx(0.5), "monotonic": 3 / 4}
