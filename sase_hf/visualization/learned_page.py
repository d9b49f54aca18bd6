"""What a classifier learned, as the section of a page and as lines for the terminal.

The markup is in `templates/learned.html`. A bar is what a word added to the logit of a label each
time, on average; the longest bar of the section is the largest of these numbers.
"""

from collections.abc import Iterator

from ..models.answers import REGRESSION, SINGLE_LABEL
from ..utils.text import one_line
from .learned_words import (
    COUNT_WITHOUT_EFFECT,
    LEAST_COUNT,
    LearnedLabel,
    LearnedPart,
    LearnedWord,
    LearnedWords,
)
from .rendering import percent, signed

NUM_UNFOLDED = 5  # words of a list; the others are folded
NUM_READ_WORDS = 6  # of a hop, and of each list in the terminal


def learned_values(learned: LearnedWords) -> dict[str, object]:
    """Return the values of `learned.html`."""
    labels = [(label, list(_lists(learned, label))) for label in learned.labels]
    listed = [word for _, lists in labels for _, words in lists for word in words]
    return {
        "learned": learned,
        "lead": _lead(learned),
        "notes": list(_notes(learned)),
        "labels": labels,
        "longest": max((abs(word.mean) for word in listed), default=0.0),
        "num_unfolded": NUM_UNFOLDED,
        "parts": [
            (part, _part_name(part), part.words[:NUM_READ_WORDS], _adds(part))
            for part in learned.parts
        ],
        "largest": max((part.size for part in learned.parts), default=0.0),
        "adds_to_labels": learned.kind != REGRESSION,
    }


def learned_text(learned: LearnedWords) -> str:
    """Return the words of each label and of each hop as lines for the terminal."""
    lines = [f"what the model learned, from {learned.num_texts:,} rows:"]
    for label in learned.labels:
        for heading, words in _lists(learned, label):
            named = [
                f"{word.word} {signed(word.mean)} ×{word.count:,}"
                for word in words[:NUM_READ_WORDS]
            ]
            lines.append(f"{label.label}, {heading}: {', '.join(named) or 'no word'}")
    for part in learned.parts:
        shares = [f"{word} {percent(share)}" for word, share in part.words[:NUM_READ_WORDS]]
        lines.append(f"{_part_name(part)}: {', '.join([*shares, _adds(part)])}")
    lines += [f"({note})" for note in _notes(learned)]
    return "\n".join(map(one_line, lines))


def _has_opposites(learned: LearnedWords) -> bool:
    """Return whether what speaks for one label speaks against the other."""
    return learned.kind == SINGLE_LABEL and learned.num_labels == 2


def _lists(learned: LearnedWords, label: LearnedLabel) -> Iterator[tuple[str, list[LearnedWord]]]:
    """Yield the lists of words of a label with their headings."""
    is_number = learned.kind == REGRESSION
    yield "raised it" if is_number else "spoke for it", label.words_for
    if not _has_opposites(learned):
        yield "lowered it" if is_number else "spoke against it", label.words_against


def _part_name(part: LearnedPart) -> str:
    numbers = ", ".join(str(hop + 1) for hop in part.hops)
    if len(part.hops) > 1:
        return f"hops {numbers}, which read the same"
    return f"hop {numbers}" if part.hops else "the words themselves"


def _adds(part: LearnedPart) -> str:
    """Return how much a part adds, and for what."""
    adds = f"adds {part.size:.2f}"
    return f"{adds}, mostly for {part.label}" if part.label else adds


def _lead(learned: LearnedWords) -> str:
    """Return what a bar is."""
    number = "the number" if learned.kind == REGRESSION else "the logit of the label"
    lead = (
        f"A bar is what a word added to {number} each time it occurred, on average, wherever it "
        "stood; × says how often that was. Choose a word for an example."
    )
    if _has_opposites(learned):
        lead += " What speaks for one label speaks against the other."
    return lead


def _notes(learned: LearnedWords) -> Iterator[str]:
    """Yield which texts, words and labels are left out."""
    yield (
        f"Words that occur fewer than {LEAST_COUNT} times are left out; the order is that of the "
        f"means with {COUNT_WITHOUT_EFFECT} more occurrences that add nothing, since few "
        "occurrences can be chance"
    )
    if learned.num_left_out:
        yield f"{learned.num_left_out:,} more rows were not read"
    if learned.num_labels > len(learned.labels):
        yield f"The {len(learned.labels)} most frequent of {learned.num_labels} labels are shown"
