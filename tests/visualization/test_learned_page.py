"""What a model learned, on a page: complete, readable, harmless."""

import re
from typing import Any

import pytest
from shown import PAYLOADS, assert_harmless, explained

from sase_hf.models.answers import SINGLE_LABEL, answers_of_kind
from sase_hf.visualization import attention_html
from sase_hf.visualization.learned_words import (
    LearnedLabel,
    LearnedWord,
    LearnedWords,
)


def word_of(text: str, mean: float) -> LearnedWord:
    return LearnedWord(text, mean, 4)


def label_of(name: str = "good", num_texts: int = 3, **more: Any) -> LearnedLabel:
    values = {
        "words_for": [word_of("warm", 1.0), word_of("quick", 0.25)],
        "words_against": [word_of("cold", -0.5)],
    }
    return LearnedLabel(name, num_texts, **{**values, **more})


LEARNED = LearnedWords(
    answers=answers_of_kind(SINGLE_LABEL, "abc"),
    num_texts=9,
    labels=[label_of(), label_of("bad"), label_of("fair")],
)


def page_of(**more: Any) -> str:
    return attention_html([], learned=LEARNED._replace(**more))


def test_learned_page_colours_the_words_of_each_label_by_one_scale() -> None:
    found = re.findall(
        r'learned-word (pro|con)" style="--w:(.*?)"><bdi>(\w+)</bdi> <small>(.*?) ×4<',
        page_of(labels=[label_of()]),
    )
    assert found == [
        ("pro", "1.000", "warm", "+1.00"),
        ("pro", "0.250", "quick", "+0.25"),
        ("con", "0.500", "cold", "−0.50"),
    ]


@pytest.mark.parametrize("text", [*PAYLOADS, "a\u202eb"])
def test_learned_page_shows_hostile_words_and_labels_and_obeys_none(text: str) -> None:
    word = LearnedWord(text, 1.0, 3)
    labels = [LearnedLabel(text, 1, [word], [word]), label_of(f"{text} 2"), label_of(f"{text} 3")]
    learned = LEARNED._replace(labels=labels)
    source = attention_html([explained("dull but fine", [1.0, 0, 0])], learned=learned)
    assert_harmless(source)
    assert "<script" not in source
    assert "\u202e" not in source
