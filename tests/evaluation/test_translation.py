"""What is measured of translations, against counts by hand."""

from typing import Any

import pytest
import torch
from tiny_translation import tiny_translator

from sase_hf import build_translation_tokenizer
from sase_hf.evaluation import translation
from sase_hf.evaluation.translation import alignment_statistics, measure_translation

SOURCES = ["a b c", "d e f g h i", "a z"]


def test_measure_translation_counts_unknown_words_and_long_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of the source as the translation: BLEU 100 where the reference is the source."""
    tokenizer = build_translation_tokenizer(SOURCES[:2])
    calls: list[Any] = []

    def copy(model: Any, tokenizer: Any, texts: list[str], **options: Any) -> list[str]:
        calls.append((len(texts), options.get("suppress_tokens"), options["num_beams"]))
        return list(texts)

    monkeypatch.setattr(translation, "translate", copy)
    references = [*SOURCES[:2], "b"]
    model = tiny_translator(vocab_size=len(tokenizer))
    found = measure_translation(
        model, tokenizer, SOURCES, references, batch_size=2, num_beams=(1, 3)
    )
    assert calls == [(3, None, 1), (3, None, 3), (2, [1], 1), (2, [1], 3), (2, None, 3)]
    assert found["pairs_no_unk"] == 2
    assert found["bleu_no_unk"] == {"1": pytest.approx(100), "3": pytest.approx(100)}
    assert found["bleu"]["1"] == found["bleu"]["3"] < 99
    assert [(b["words"], b["pairs"], b["joined"]) for b in found["by_length"]] == [
        ([1, 5], 2, 0),
        ([6, 10], 2, 1),
        ([11, 15], 1, 1),
    ]


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
    found = alignment_statistics(model, tokenizer, ["a", "a b c"], ["a b", "b c"], batch_size=2)
    assert found == {"entropy": pytest.approx(0.5), "monotonic": 3 / 4}


def test_translate_returns_texts_in_the_order_of_their_sources() -> None:
    tokenizer = build_translation_tokenizer(SOURCES)
    torch.manual_seed(1)
    model = tiny_translator(1.2, vocab_size=len(tokenizer))
    options: dict[str, Any] = {"max_new_tokens": 5}
    together = translation.translate(model, tokenizer, SOURCES, batch_size=2, **options)
    alone = [
        text
        for source in SOURCES
        for text in translation.translate(model, tokenizer, [source], batch_size=1, **options)
    ]
    assert together == alone
    assert len(set(alone)) > 1
