"""What a classifier learned, as the section of a page and as lines for the terminal.

The markup is in `templates/learned.html`. A bar is what a word added to the logit of a label each
time, on average; the longest bar of the section is the largest of these numbers.
"""

from collections.abc import Iterator, Sequence

from ..models.answers import REGRESSION, SINGLE_LABEL
from ..utils.text import one_line
from .attended_text import shortened
from .learned_words import (
    COUNT_WITHOUT_EFFECT,
    LearnedHop,
    LearnedLabel,
    LearnedWord,
    LearnedWords,
    Voice,
)
from .rendering import percent, signed
from .word_corpus import Example

MAX_SHOWN_LABELS = 8
MAX_NAMED_LABELS = 20
# Words of a list before the others are folded, with two labels or fewer, and with more.
NUM_WORDS_OF_FEW = 10
NUM_WORDS_OF_MANY = 5
LONGEST_WORD = 40  # characters
LONGEST_LABEL = 40
SIDES = ("1st", "2nd")  # texts of a pair
NUM_PUNCTUATION = 6
LEAST_NAMED_SHARE = 0.0005  # of punctuation and of unknown words; less is shown as 0.0 %
NUM_HOP_WORDS = 6
NUM_TERMINAL_WORDS = 6


def learned_values(learned: LearnedWords) -> dict[str, object]:
    """Return the values of `learned.html`."""
    shown, left_out = _shown_labels(learned)
    means = [abs(word.mean) for label in shown for word in _listed(learned, label)]
    sizes = [hop.voice.size for hop in learned.hops]
    if learned.linear is not None:
        sizes.append(learned.linear.size)
    longest = max(means, default=0.0)
    largest = max(sizes, default=0.0)
    return {
        "num_texts": learned.num_texts,
        "noun": _noun(learned),
        "lead": _lead(learned),
        "num_unfolded": NUM_WORDS_OF_FEW if len(shown) <= 2 else NUM_WORDS_OF_MANY,
        "labels": [_label_values(learned, label, longest) for label in shown],
        "hops": [_hop_values(learned, hop, largest) for hop in learned.hops],
        "linear": _voice_values(learned, learned.linear, largest),
        "notes": [*_notes(learned), *_note_on_labels(left_out)],
        "adds_to_labels": learned.kind != REGRESSION,
    }


def learned_text(learned: LearnedWords) -> str:
    """Return the words of each label and of each hop as lines for the terminal."""
    shown, left_out = _shown_labels(learned)
    lines = [f"what the model learned, from {learned.num_texts:,} {_noun(learned)}:"]
    for label in shown:
        for heading, words in _lists(learned, label):
            named = ", ".join(map(_named, words[:NUM_TERMINAL_WORDS])) or "no word"
            lines.append(f"{one_line(label.label)}, {heading}: {named}")
    for hop in learned.hops:
        shares = [f"{one_line(word)} {percent(share)}" for word, share in hop.words]
        read = ", ".join(shares[:NUM_TERMINAL_WORDS]) or "no word of the lists"
        lines.append(f"{_hop_name(hop)}: {read}; {_voice_text(learned, hop.voice)}")
    if learned.linear is not None:
        lines.append(f"the words themselves: {_voice_text(learned, learned.linear)}")
    lines += [f"({note})" for note in (*_notes(learned), *_note_on_labels(left_out))]
    return "\n".join(lines)


def _shown_labels(learned: LearnedWords) -> tuple[list[LearnedLabel], list[LearnedLabel]]:
    """Return the labels that are shown, the most frequent ones in their order, and the others."""
    labels = learned.labels
    by_frequency = sorted(range(len(labels)), key=lambda place: -labels[place].num_texts)
    shown = sorted(by_frequency[:MAX_SHOWN_LABELS])
    left_out = by_frequency[MAX_SHOWN_LABELS:]
    return [labels[place] for place in shown], [labels[place] for place in left_out]


def _has_opposites(learned: LearnedWords) -> bool:
    """Return whether what speaks for one label speaks against the other."""
    return learned.kind == SINGLE_LABEL and len(learned.labels) == 2


def _lists(
    learned: LearnedWords, label: LearnedLabel
) -> Iterator[tuple[str, Sequence[LearnedWord]]]:
    """Yield the lists of words of a label with their headings."""
    if learned.kind == REGRESSION:
        yield "raised it", label.words_for
        yield "lowered it", label.words_against
        return
    yield "spoke for it", label.words_for
    if not _has_opposites(learned):
        yield "spoke against it", label.words_against


def _listed(learned: LearnedWords, label: LearnedLabel) -> list[LearnedWord]:
    """Return the words that have a bar."""
    return [word for _, words in _lists(learned, label) for word in words]


def _label_values(learned: LearnedWords, label: LearnedLabel, longest: float) -> dict[str, object]:
    lists = []
    for heading, words in _lists(learned, label):
        bars = [_word_values(word, longest) for word in words]
        lists.append((heading.capitalize(), "pro" if words is label.words_for else "con", bars))
    unknown = None if label.unknown is None else _word_values(label.unknown, longest)
    return {
        "label": label.label,
        "num_texts": label.num_texts,
        "lists": lists,
        "punctuation": [_word_values(word, longest) for word in label.punctuation][
            :NUM_PUNCTUATION
        ],
        "unknown": unknown,
    }


def _word_values(word: LearnedWord, longest: float) -> dict[str, object]:
    return {
        "word": _shown(word.word),
        "side": "" if word.side is None else SIDES[word.side],
        "bar": f"{abs(word.mean) / longest:.3f}" if longest else "0",
        "mean": signed(word.mean),
        "added": signed(word.added),
        "count": f"{word.count:,}",
        "example": _on_one_line(word.example),
    }


def _shown(word: str) -> str:
    """Return a word of a list; white space has a name, since nobody would see it."""
    return shortened(word, LONGEST_WORD) if word.strip() else "white space"


def _on_one_line(example: Example) -> tuple[str, str, str]:
    """Return an example without line breaks; white space around its word is kept."""
    before, word, after = example
    start = " " if after[:1].isspace() else ""
    end = " " if before[-1:].isspace() else ""
    return (
        " ".join(before.split()) + end,
        " ".join(word.split()),
        start + " ".join(after.split()),
    )


def _hop_values(learned: LearnedWords, hop: LearnedHop, largest: float) -> dict[str, object]:
    words = [(_shown(word), percent(share)) for word, share in hop.words[:NUM_HOP_WORDS]]
    apart = []
    if hop.punctuation >= LEAST_NAMED_SHARE:
        apart.append(f"punctuation {percent(hop.punctuation)}")
    if hop.unknown >= LEAST_NAMED_SHARE:
        apart.append(f"unknown words {percent(hop.unknown)}")
    return {
        "name": _hop_name(hop).capitalize(),
        "are_same": len(hop.hops) > 1,
        "words": words,
        "apart": ", ".join(apart),
        "voice": _voice_values(learned, hop.voice, largest),
    }


def _voice_values(
    learned: LearnedWords, voice: Voice | None, largest: float
) -> dict[str, str] | None:
    if voice is None:
        return None
    return {
        "bar": f"{voice.size / largest:.3f}" if largest else "0",
        "size": f"{voice.size:.2f}",
        "spoke_for": _spoke_for(learned, voice),
    }


def _spoke_for(learned: LearnedWords, voice: Voice) -> str:
    """Return for which label a voice speaks, or where it moves a number."""
    if learned.kind == REGRESSION:
        if voice.label is None:
            return "up here, down there"
        direction = "up" if voice.added[voice.label] > 0 else "down"
        return f"mostly {direction}: {shortened(voice.label, LONGEST_LABEL)}"
    if voice.label is None:
        return "for either label" if len(learned.labels) == 2 else "for changing labels"
    return f"mostly for {shortened(voice.label, LONGEST_LABEL)}"


def _voice_text(learned: LearnedWords, voice: Voice) -> str:
    """Return how much a voice adds and for what, for the terminal."""
    return f"adds {voice.size:.2f}, {one_line(_spoke_for(learned, voice))}"


def _hop_name(hop: LearnedHop) -> str:
    numbers = [str(number + 1) for number in hop.hops]
    if len(numbers) == 1:
        return f"hop {numbers[0]}"
    return f"hops {', '.join(numbers)}, which read the same"


def _named(word: LearnedWord) -> str:
    """Return a word with its numbers for the terminal."""
    side = "" if word.side is None else f" ({SIDES[word.side]} text)"
    return f"{one_line(_shown(word.word))}{side} {signed(word.mean)} ×{word.count:,}"


def _noun(learned: LearnedWords) -> str:
    noun = "pair" if learned.is_pair else "text"
    return noun if learned.num_texts == 1 else f"{noun}s"


def _lead(learned: LearnedWords) -> str:
    """Return what a bar is."""
    number = "the number" if learned.kind == REGRESSION else "the logit of the label"
    lead = (
        f"A bar is what a word added to {number} each time it occurred, on average, wherever it "
        "stood; × says how often that was. Choose a word for an example, and for what it added in "
        "all."
    )
    if learned.is_pair:
        lead += " 1st and 2nd say in which text of the pair."
    if _has_opposites(learned):
        lead += " What speaks for one label speaks against the other."
    return lead


def _notes(learned: LearnedWords) -> Iterator[str]:
    """Yield which texts and words are left out."""
    yield (
        f"Words that occur fewer than {learned.least_count} times are left out: "
        f"{learned.num_rare:,} different ones"
    )
    yield (
        f"The order is that of the means with {COUNT_WITHOUT_EFFECT} more occurrences that add "
        "nothing, since few occurrences can be chance"
    )
    if learned.num_left_out:
        total = learned.num_texts + learned.num_left_out
        yield f"{learned.num_texts:,} of {total:,} texts were read, drawn at random"
    if learned.explains_predicted:
        yield "Of so many labels, each text explains only the one that is predicted for it"


def _note_on_labels(left_out: Sequence[LearnedLabel]) -> Iterator[str]:
    """Yield which labels have no bars."""
    if not left_out:
        return
    names = [one_line(label.label) for label in left_out[:MAX_NAMED_LABELS]]
    if len(left_out) > len(names):
        names.append(f"and {len(left_out) - len(names):,} more")
    yield f"Less frequent labels, which have no bars: {', '.join(names)}"
