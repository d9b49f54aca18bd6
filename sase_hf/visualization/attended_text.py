"""A result of the `self-attention` pipeline as words with weights, ready to be shown.

All renderers show these words, and nothing in a text stays hidden (`visible`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from statistics import median_high
from typing import Any, NamedTuple

import regex
from transformers import Pipeline

from ..models.answers import answers_of_kind
from ..models.pipeline_self_attentive import RIVAL_SIGN
from ..utils.text import UNSPACED, shortened, shown_characters

Result = Mapping[str, Any]

MIN_RATIO = 1.5  # least weight of a word that stands out, over an even share
FULL_STRENGTH = 8  # times an even share
NONE_STANDS_OUT = "no word much more than others"
MIN_ADDED = 0.05  # of the largest contribution in a text; smaller ones are not named
UNLIKE = 0.05  # the familiarity below which a text is unlike the training texts
SHOWN_AS_ZERO = 0.005  # smaller contributions are not named either
LED_BY_HOPS = 1 / 3  # of the logit, which the hops must add before their attention is shown at once

# Places within a word: letters, marks or digits meet, but for those of scripts without blanks.
_WORD = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]"
_MEETING = regex.compile(rf"(?<={_WORD})(?={_WORD})", regex.VERSION1)
_UNSPACED = rf"[[\p{{L}}\p{{M}}\p{{N}}]&&[{UNSPACED}]]"
_NEIGHBOURS = regex.compile(rf"(?<={_UNSPACED})(?={_UNSPACED})", regex.VERSION1)

# Of a result: one value for a text, two for a pair.
FIELDS = (
    "text",
    "offsets",
    "overall",
    "attention",
    "word_contributions",
    "linear_contributions",
    "truncated",
)


@dataclass(frozen=True)
class AttendedText:
    """One text with its words and their weights.

    A view is a weight for each word: view 0 is all hops together, view k is hop k. `whole_words`
    defines a word.
    """

    text: str
    shown: Sequence[str]  # each character as `visible` shows it
    words: list[tuple[int, int]]  # start and end in the text
    views: list[list[float]]
    added: list[float] | None  # by each word to the logit of the target; None if it is not known
    linear: list[float] | None  # by each word itself, in the linear part; None without one
    truncated: int  # number of tokens that the model did not read

    def part(self, start: int, end: int) -> str:
        """Return a part of the text as readers see it."""
        return "".join(self.shown[start:end])

    def top_words(self, view: int, count: int) -> list[tuple[str, float]]:
        """Return up to `count` words that stand out in a view, each with its weight.

        They have at least `MIN_RATIO` times an even share; of one word or two, that of two.
        """
        least = MIN_RATIO / max(len(self.words), 2)
        named = [
            (self.part(*word), weight)
            for word, weight in zip(self.words, self.views[view], strict=True)
            if weight >= least
        ]
        return sorted(named, key=lambda word_weight: -word_weight[1])[:count]

    def styles(self) -> list[str]:
        """Return the style of each word: its strength in each view, and what it added.

        The custom properties are those of `page`.
        """
        styles: list[list[str]] = [[] for _ in self.words]
        for view, weights in enumerate(self.views):
            for style, strength in zip(styles, strengths(weights), strict=True):
                if strength:
                    style.append(f"--{view}:{strength}")
        for kind, added_by_words in (("", self.added or ()), ("own-", self.linear or ())):
            for style, added in zip(styles, added_by_words, strict=False):
                if added:
                    style.append(f"--{kind}{'pro' if added > 0 else 'con'}:{abs(added):.3f}")
        return [";".join(style) for style in styles]

    def reasons(self, added_by_words: Sequence[float]) -> list[tuple[int, int, float]]:
        """Return the parts of the text that added something: start, end and how much.

        A part is a word. Where a script has no blanks, neighbours that both added more than next to
        nothing, for the same side, are one. What each word added is `added` or `linear`.
        """
        least = least_named(added_by_words)
        neighbours = {match.start() for match in _NEIGHBOURS.finditer(self.text)}
        parts: list[tuple[int, int, float]] = []
        for (start, end), added in zip(self.words, added_by_words, strict=True):
            start_of_last, end_of_last, before = parts[-1] if parts else (0, 0, 0.0)
            are_neighbours = start == end_of_last and start in neighbours
            if are_neighbours and min(abs(before), abs(added)) >= least and before * added > 0:
                parts[-1] = (start_of_last, end, before + added)
            else:
                parts.append((start, end, added))
        return parts

    def strongest_first(self, added_by_words: Sequence[float]) -> list[tuple[str, float]]:
        """Return the reasons for the target and against it, but those that added next to nothing.

        Each is a part of the text as readers see it, with what it added.
        """
        least = least_named(added_by_words)
        parts = sorted(self.reasons(added_by_words), key=lambda part: -abs(part[2]))
        return [(self.part(*span), added) for *span, added in parts if abs(added) >= least]

    def for_and_against(
        self, added_by_words: Sequence[float], count: int
    ) -> list[list[tuple[str, float]]]:
        """Return up to `count` reasons for the target and as many against, the strongest first."""
        named = self.strongest_first(added_by_words)
        return [
            [reason for reason in named if reason[1] > 0][:count],
            [reason for reason in named if reason[1] < 0][:count],
        ]


def least_named(added: Sequence[float]) -> float:
    """Return the least size of a contribution that is named among others."""
    return max(MIN_ADDED * max(map(abs, added), default=0.0), SHOWN_AS_ZERO)


def strengths(weights: Sequence[float]) -> list[float]:
    """Return how strong the colours of T words are, from 0 to 1, given T weights that sum to 1.

    The strength is the logarithm of the ratio of a weight to an even share, 1 / T: 0 at an even
    share or less, 1 at `FULL_STRENGTH` times an even share or, if T is smaller, at a weight of 1.
    """
    num_words = len(weights)
    if num_words < 2:
        return [0.0] * num_words
    full = math.log(min(FULL_STRENGTH, num_words))
    ratios = (max(weight * num_words, 1.0) for weight in weights)
    return [round(min(math.log(ratio) / full, 1.0), 2) for ratio in ratios]  # enough for a colour


def full_contribution(texts: Sequence[AttendedText]) -> float:
    """Return the contribution that is drawn in full colour; 0 without contributions.

    It is the median of the texts' largest ones, so that an outlier does not fade the rest.
    """
    largest = [max(map(abs, text.added)) for text in texts if text.added]
    return median_high([size for size in largest if size] or [0.0])


def parse_results(results: Result | Sequence[Result]) -> list[tuple[Result, list[AttendedText]]]:
    """Return one result or several, each with its texts."""
    if isinstance(results, Mapping):
        results = [results]
    return [(result, parse_result(result)) for result in results]


def parse_result(result: Result) -> list[AttendedText]:
    """Return the one or two texts of a result of the `self-attention` pipeline."""
    if isinstance(result["text"], str):
        return [_attended_text(result)]
    fields = [field for field in FIELDS if field in result]
    sides = range(len(result["text"]))
    return [_attended_text({field: result[field][side] for field in fields}) for side in sides]


def read_with_rivals(reader: Pipeline, inputs: Sequence[Any]) -> Iterator[Any]:
    """Yield the result of each text, with why its label was chosen `over_rival`, the next one.

    Those are the two labels, and the one or two texts that say why. They are left out if there is
    no third label: of two, what speaks for one speaks against the other.
    """
    for text, result in zip(inputs, reader(inputs), strict=True):
        scores = result["scores"]
        if answers_of_kind(result["kind"]).has_one_label and len(scores) > 2:
            labels = nlargest(2, scores, scores.get)
            target = RIVAL_SIGN.join(labels)
            # Of labels with a sign of their own, others may be meant.
            meant = [x for x in scores if target.removeprefix(f"{x}{RIVAL_SIGN}") in scores]
            if meant == labels[:1]:
                result["over_rival"] = labels, parse_result(reader(text, target=target))
        yield result


def of_texts(result: Result, field: str) -> list[Any]:
    """Return a field of the text, or of each text of a pair; nothing if the result lacks it."""
    if field not in result:
        return []
    return [result[field]] if isinstance(result["text"], str) else result[field]


class Totals(NamedTuple):
    """What was added to the logit of the target of a result, in both texts of a pair."""

    by_hop: list[float]
    by_mean_state: float  # in the linear part, of a pretrained encoder
    by_words_themselves: float  # in the linear part
    by_words: float  # what "why" shares out among the words of the texts
    logit: float  # of the target

    @property
    def by_hops(self) -> float:
        """What all hops added."""
        return sum(self.by_hop)

    @property
    def together(self) -> float:
        """The logit of the target, minus that of an empty text."""
        return self.by_hops + self.by_mean_state + self.by_words_themselves

    @property
    def besides(self) -> float:
        """What an empty text has, what the pipeline calls `rest`, and tokens without characters."""
        return self.logit - self.by_words

    @property
    def are_hops_behind(self) -> bool:
        """Whether the hops added so little of the logit that their attention explains little."""
        return abs(self.by_hops) < LED_BY_HOPS * abs(self.together)


def totals_of(result: Result, texts: Sequence[AttendedText]) -> Totals | None:
    """Return what was added in all; None for a result without contributions."""
    sides = of_texts(result, "contributions")
    if not sides:
        return None
    by_hop: list[float] = [sum(map(sum, hop)) for hop in zip(*sides, strict=True)]
    num_hops = len(texts[0].views) - 1
    return Totals(
        by_hop=by_hop[:num_hops],
        by_mean_state=sum(by_hop[num_hops:]),
        by_words_themselves=sum(map(sum, of_texts(result, "linear_contributions"))),
        by_words=sum(sum(text.added or ()) for text in texts),
        logit=result["logit"],
    )


def _attended_text(reading: Result) -> AttendedText:
    tokens_of_words, words = whole_words(reading["text"], reading["offsets"])

    def by_word(values: Sequence[float]) -> list[float]:
        return [sum(values[token] for token in tokens) for tokens in tokens_of_words]

    added = reading.get("word_contributions")
    linear = reading.get("linear_contributions")
    return AttendedText(
        text=reading["text"],
        shown=shown_characters(reading["text"]),
        words=words,
        views=[by_word(weights) for weights in (reading["overall"], *reading["attention"])],
        added=None if added is None else by_word(added),
        linear=None if linear is None else by_word(linear),
        truncated=reading.get("truncated", 0),
    )


def whole_words(
    text: str, offsets: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Return the tokens of every word of a text, and the start and end of every word.

    Tokens are one word where letters or digits meet, as in "won't", whatever the tokenizer cuts,
    and where they are parts of what a reader sees as one character, such as an emoji. Where a
    script has no blanks, each token of a character is a word. A token without characters belongs to
    no word.
    """
    inside = {match.start() for match in _MEETING.finditer(text)}
    if not text.isascii():  # whose characters have no parts
        starts = {match.start() for match in regex.finditer(r"\X", text)}
        inside |= set(range(len(text))) - starts
    tokens: list[list[int]] = []
    words: list[tuple[int, int]] = []
    for token, (start, end) in enumerate(offsets):
        start_of_last, done = words[-1] if words else (0, 0)
        if start == end:
            continue
        if start < done or (start == done and start in inside):
            tokens[-1].append(token)
            words[-1] = (start_of_last, max(done, end))
        else:
            tokens.append([token])
            words.append((start, end))
    return tokens, words


def predicted_text(result: Result) -> str:
    """Return the predicted label as text; with several labels per text, all that are predicted."""
    return label_text(result.get("labels", result["label"]))


def answer_text(result: Result) -> str:
    """Return the predicted label with its score, or each number; of several labels, the names."""
    if "labels" in result:
        return predicted_text(result)
    kind = result.get("kind")
    answers = {result["label"]: result["score"]}
    if not answers_of_kind(kind).has_labels:
        answers = result["scores"]
    return ", ".join(f"{label} {score_text(score, kind)}" for label, score in answers.items())


def score_text(score: float, kind: str | None) -> str:
    """Return a score as a person reads it; `kind` is that of a result."""
    return format(score, ".1%" if answers_of_kind(kind).has_one_label else ".3f")


def is_right(result: Result) -> bool | None:
    """Return whether the true labels are those predicted; None if unknown, or for no labels.

    The `kind` of the result says what it predicts. Without one, nothing is said.
    """
    true_label = result.get("true_label")
    if true_label is None:
        return None
    answers = answers_of_kind(result.get("kind"))
    is_list = isinstance(true_label, list | tuple)
    if not answers.has_labels or (answers.has_one_label and is_list):
        return None
    return _label_set(true_label) == _label_set(result.get("labels", result["label"]))


def _label_set(labels: object) -> set[str]:
    """Return the names of one label, or of several."""
    several = labels if isinstance(labels, list | tuple) else [labels]
    return set(map(str, several))


def doubts_of(result: Result) -> list[str]:
    """Return what speaks against an answer: a strange text, and other labels nearby."""
    doubts = []
    if result.get("familiarity", 1.0) < UNLIKE:
        count = math.ceil(100 * result["familiarity"])
        doubts.append(
            f"Unlike the training texts: at most {count} in 100 held-out texts are as far from "
            f"them; {result['unknown']:.0%} of its words are unknown"
        )
    labels = [near["label"] for near in result.get("nearest", ())]
    if labels and all(is_right({**result, "true_label": label}) is False for label in labels):
        doubts.append("None of the nearest training texts has this label")
    return doubts


def nearest_text(near: Mapping[str, Any]) -> str:
    """Return a training row that is near a text: its label, and its text if it is known."""
    texts = near.get("text", [])
    shown = " / ".join(map(shortened, [texts] if isinstance(texts, str) else texts))
    label = label_text(near["label"])
    return f"{label}: {shown}" if shown else label


def label_text(label: object) -> str:
    """Return a label, or a list of labels, as text."""
    if isinstance(label, list):
        return ", ".join(map(str, label)) or "no label"
    return str(label)
