"""What a result of the `self-attention` pipeline holds, checked and ready to be shown.

A `Reading` is one text with its words and, for every view of it, a weight for each word: view 0 is
all hops together, view k is hop k. Every renderer starts here, so all refuse the same results and
show the same words.
"""

import heapq
import re
import reprlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .results import (
    FIELDS,
    OF_A_TEXT,
    Result,
    check_places,
    check_scores,
    check_weights,
    is_list,
)

# Assigned, and yet nothing to see: fillers, blanks and variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)
# Not printable for Python, but drawn: line breaks, spaces, Arabic and other signs before numbers,
# and the block in which new versions of Unicode place their emoji.
_DRAWN = re.compile(
    "[\n\t\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U0001f000-\U0001faff]"
)
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
_STYLE_SELECTORS = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
# England, Scotland and Wales: a black flag, then tags that spell the country, then their end.
_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|"
    "\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
# What belongs to the character before it: marks, selectors, joiners, skin tones and tags.
_ATTACHED = re.compile("[\ufe0e\ufe0f\u200c\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff]+$")


@dataclass(frozen=True)
class Reading:
    """One text and what was read in it.

    Attributes:
        text: The text as it came.
        shown: For each of its characters what stands for it; see `visible`.
        words: Start and end of what is shown as one word: a token, or several that share
            characters or make up one emoji.
        views: For all hops together, then for each hop, the weight of every word.
        spans: The most attended parts of the text, strongest first.
        overlap: How much the hops overlap; None where the result does not say.
        truncated: How many tokens were cut off.
    """

    text: str
    shown: Sequence[str]
    words: list[tuple[int, int]]
    views: list[Sequence[float]]
    spans: Sequence[Mapping[str, Any]]
    overlap: float | None
    truncated: int

    def piece(self, start: int, end: int) -> str:
        """Return a part of the text as it can be seen."""
        return "".join(self.shown[start:end])

    def shares(self, view: int) -> list[float]:
        """Return the weights of a view, measured against the strongest word in it."""
        weights = self.views[view]
        strongest = max(weights, default=0.0) or 1.0
        return [weight / strongest for weight in weights]

    def strongest(self, view: int, top: int) -> list[tuple[str, float]]:
        """Return the words with the most weight in a view, and these weights, most first."""
        weights = self.views[view]
        places = heapq.nsmallest(top, range(len(weights)), key=lambda place: -weights[place])
        return [(self.piece(*self.words[place]), weights[place]) for place in places]


def read_results(results: Result | Sequence[Result]) -> list[tuple[Result, list[Reading]]]:
    """Check one result or several and return each with the readings of its one or two texts.

    Args:
        results: What the `self-attention` pipeline returned.

    Raises:
        ValueError: If one is not a result of that pipeline, a score or a weight is no finite
            number, or weights and offsets do not fit its tokens and its text; says which.
    """
    if not isinstance(results, Iterable) or isinstance(results, str | bytes):
        raise ValueError(
            f"the results are {reprlib.repr(results)}; they must be what the self-attention "
            "pipeline returned, a dict or a list of them"
        )
    several = [results] if isinstance(results, Mapping) else list(results)
    return [
        (result, read_result(result, f"result {place} (counted from 0)"))
        for place, result in enumerate(several)
    ]


def read_result(result: Result, name: str = "the result") -> list[Reading]:
    """Check a result and return the readings of its one or two texts.

    Args:
        result: What the `self-attention` pipeline returned for one input.
        name: What a message calls it.

    Raises:
        ValueError: As for `read_results`.
    """
    if not isinstance(result, Mapping):
        raise ValueError(f"{name} is {reprlib.repr(result)}; it must be a dict from the pipeline")
    missing = [field for field in FIELDS if field not in result]
    if missing:
        raise ValueError(
            f"a result of the self-attention pipeline must have {', '.join(FIELDS)}; "
            f"{name} has no {', '.join(missing)}. Make one with pipeline('self-attention', ...)"
        )
    check_scores(result, name)
    text = result["text"]
    is_pair = is_list(text)
    if not all(isinstance(one, str) for one in (text if is_pair else [text])):
        raise ValueError(f"{name} has {reprlib.repr(text)} as text; it must be a text, or two")
    sides = range(len(text)) if is_pair else [None]
    return [_read_text(result, side, name) for side in sides]


def _read_text(result: Result, side: int | None, name: str) -> Reading:
    """Check and describe one text of a result, None for its only one."""

    def field(name: str) -> Any:
        return result[name] if side is None else result[name][side]

    extras = [key for key in ("spans", "overlap", "truncated") if result.get(key) is not None]
    try:
        text, tokens, offsets, overall, hops = map(field, OF_A_TEXT)
        optional = {key: field(key) for key in extras}
    except (IndexError, KeyError, TypeError):
        parts = ", ".join((*OF_A_TEXT, *extras))
        raise ValueError(f"{name} is a pair, so each of {parts} must be") from None
    check_places(name, text, tokens, offsets)
    if not is_list(hops):
        raise ValueError(f"{name} has {reprlib.repr(hops)} as attention; it must be a list of hops")
    views = [overall, *hops]
    for number, weights in enumerate(views):
        view = f"hop {number}" if number else "overall"
        check_weights(name, view, weights, tokens, offsets)
    shown = visible_characters(text)
    groups = _grouped(text, shown, offsets)
    if len(groups) < len(offsets):
        views = [
            [sum(map(weights.__getitem__, group)) for group, *_ in groups] for weights in views
        ]
    return Reading(
        text=text,
        shown=shown,
        words=[(start, end) for _, start, end in groups],
        views=views,
        spans=optional.get("spans", []),
        overlap=optional.get("overlap"),
        truncated=optional.get("truncated", 0),
    )


def _grouped(
    text: str, shown: Sequence[str], offsets: Sequence[Sequence[int]]
) -> list[tuple[list[int], int, int]]:
    """Return the words of a text: the tokens in each, its start and its end.

    Tokens with the same characters, which byte-level tokenizers make, are one word, and so are
    those that a reader sees as one character. A token without characters has no word.
    """
    words: list[tuple[list[int], int, int]] = []
    done = 0
    for token, (start, end) in enumerate(offsets):
        if words and start < end and (end <= done or _is_attached(text, shown, start, done)):
            members, first, _ = words.pop()
            words.append(([*members, token], first, max(done, end)))
        elif max(start, done) < end:
            words.append(([token], max(start, done), end))
        done = words[-1][2] if words else 0
    return words


def _is_attached(text: str, shown: Sequence[str], start: int, done: int) -> bool:
    """Say whether the character at `start` is drawn together with the one before it."""
    if start != done or start == 0 or shown[start] != text[start]:
        return False
    before, here = text[start - 1], text[start]
    if here.isascii() or before.isascii():
        return here == _KEYCAP or here in _STYLE_SELECTORS
    flags = _REGIONAL.search(text, max(0, start - 40), start) if _REGIONAL.match(here) else None
    return (
        _ATTACHED.match(here) is not None
        or unicodedata.combining(here) > 0
        or (before in _JOINERS and shown[start - 1] == before)
        or (flags is not None and len(flags[0]) % 2 == 1)
    )


def visible(text: object) -> str:
    """Return a text in which nothing is hidden and nothing turns the reading direction.

    Characters that cannot be seen (controls, formats and overrides of direction, lone surrogates,
    fillers, tags, selectors, private and unassigned ones) appear as their code point, such as
    `[U+202E]`. Line breaks and tabs stay, and so do joiners and selectors where emoji or the
    letters of a script need them.
    """
    return "".join(visible_characters(str(text)))


def visible_characters(text: str) -> Sequence[str]:
    """Return for every character of a text what `visible` shows in its place."""
    unseen = {character for character in set(text) if _is_unseen(character)}
    if not unseen:
        return text
    kept = {place for flag in _FLAG.finditer(text) for place in range(*flag.span())}
    return [
        _in_its_place(text, place) if character in unseen and place not in kept else character
        for place, character in enumerate(text)
    ]


@lru_cache(maxsize=4096)
def _is_unseen(character: str) -> bool:
    if character.isprintable():
        return _BLANK.match(character) is not None
    return unicodedata.category(character) != "Zs" and _DRAWN.match(character) is None


def _in_its_place(text: str, place: int) -> str:
    """Return what is shown for a character that cannot be seen by itself."""
    here = text[place]
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if here == "\r" and after == "\n":
        return ""  # the line break of another system
    if here in _JOINERS and _is_joined(before) and _is_joined(after):
        return here
    if here in _STYLE_SELECTORS and before:
        is_symbol = not before.isascii() and unicodedata.category(before)[0] in "SP"
        if is_symbol or after == _KEYCAP:
            return here
    return f"[U+{ord(here):04X}]"


def _is_joined(neighbour: str) -> bool:
    """Say whether a joiner beside this character has work to do."""
    if not neighbour or neighbour.isascii():
        return False
    return unicodedata.category(neighbour)[0] in "LMS"


__all__ = ["Reading", "Result", "read_result", "read_results", "visible"]
