"""scripts/lab/measures.py: measurements of a study, against counts by hand."""

from typing import Any

import measures
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

    monkeypatch.setattr(measures, "translate", copy)
    pairs = list(zip(SOURCES, [*SOURCES[:2], "b"], strict=True))
    model = tiny_translator(vocab_size=len(tokenizer))
    found = measures.measure_pairs(model, tokenizer, pairs, batch_size=2, num_beams=(1, 3))
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
    alphas = iter([torch.tensor([[0.5, 0.5]]).expand(3, -1), torch.eye(4)[[0, 2, 1]]])

    def forward(labels: Any, attention_mask: Any, **batch: Any) -> Any:
        alpha = next(alphas)
        assert (labels.shape[1], attention_mask.shape[1]) == alpha.shape
        return type("Out", (), {"cross_attentions": (alpha[None, None],)})

    monkeypatch.setattr(model, "forward", forward)
    found = measures.alignment_statistics(model, tokenizer, [("a", "a b"), ("a b c", "b c")])
    assert found == {"entropy": pytest.approx(0.5), "monotonic": 3 / 4}


def test_accuracy_by_length_keeps_rows_of_one_length_together() -> None:
    """Fifths by length, then the longest twentieth; a length stands in one group only."""
    lengths = torch.tensor([*range(1, 101), 100, 100])
    order = torch.randperm(len(lengths))
    groups = measures.accuracy_by_length((lengths <= 50)[order], lengths[order])
    assert [group["from"] for group in groups] == [1, 22, 42, 62, 82, 97]
    assert [group["to"] for group in groups] == [21, 41, 61, 81, 96, 100]
    assert [group["rows"] for group in groups] == [21, 20, 20, 20, 15, 6]
    assert [group["accuracy"] for group in groups] == [1, 1, 0.45, 0, 0, 0]
    assert groups[0]["tokens"] == 11
