"""Results in the terminal: the answer first, then why, then the attention."""

from typing import Any

import pytest
from shown import explained, pair_result, result, with_linear_part

from sase_hf.visualization import attention_text

WORDS = [-0.5, 0.0, 1.25]  # what they added


def test_attention_text_says_the_answer_then_why_then_what_was_read() -> None:
    shown = explained("dull but fine", WORDS, "4\x1b stars", true_label="5 stars", truncated=1234)
    assert attention_text(shown).splitlines() == [
        "4[U+001B] stars 75.0%, true label 5 stars",
        "why 4[U+001B] stars +0.75: +1.25 fine, −0.50 dull",
        "(tokens cut off at the end and not read: 1,234)",
        "besides +0.25: what an empty text has, and what no word added",
        "reads fine 50%",
    ]
    why = attention_text(shown, top=1).splitlines()[1]
    assert why.rpartition(": ")[2] == "+1.25 fine"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (result(""), ["4 stars 75.0%"]),
        (pair_result("so it is", "no"), ["neutral 50.0%", "reads is 50%", "reads no 100%"]),
        (result("so it", labels=["a", "b"], overall=[0.04, 0.96]), ["a, b", "reads it 96%"]),
    ],
    ids=["empty", "pair", "several labels"],
)
def test_attention_text_of_a_result_without_reasons(
    shown: dict[str, Any], expected: list[str]
) -> None:
    """What was read has no word that does not stand out."""
    assert attention_text(shown).splitlines() == expected


def test_attention_text_says_how_little_the_hops_added() -> None:
    """Their attention explains little then. What words added by themselves counts once."""
    shown = explained("dull but fine", WORDS)
    by_words = with_linear_part(shown, [-0.5, 0.0, 1.125])
    expected = attention_text(shown).splitlines()[:3]
    assert attention_text(by_words).splitlines() == [*expected, "(hops added +0.12 of +0.75)"]
