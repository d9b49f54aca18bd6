"""What the parts of a result of the `self-attention` pipeline must be, and errors for the rest.

All checks raise ValueError; its message begins with the name that they are given.
"""

import math
import reprlib
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any

Result = Mapping[str, Any]

OF_A_TEXT = ("text", "tokens", "offsets", "overall", "attention")
FIELDS = ("label", "score", *OF_A_TEXT)


def label_text(label: object) -> str:
    """Return a label, or the labels of a text that may have several, for a reader."""
    if isinstance(label, list | tuple):
        return ", ".join(map(str, label)) or "no label"
    return str(label)


def is_list(value: object) -> bool:
    """Say whether a value is a list of any kind, and no text."""
    is_sequence = isinstance(value, Collection) and hasattr(value, "__getitem__")
    return is_sequence and not isinstance(value, str | bytes | Mapping)


def check_scores(result: Result, name: str) -> None:
    """Raise unless all scores are finite numbers."""
    scores = result.get("scores", {})
    if not isinstance(scores, Mapping):
        raise ValueError(f"{name} has {reprlib.repr(scores)} as scores; it must be a dict")
    for field, score in (("score", result["score"]), *scores.items()):
        if not isinstance(score, Real):
            raise ValueError(f"{name} gives {field} as {score!r:.80}; it must be a number")
        if not math.isfinite(score):
            raise ValueError(
                f"{name} gives {field} as {score}; the model computed no number. Look for NaN in "
                "its weights, or take another checkpoint"
            )


def check_places(name: str, text: str, tokens: Any, offsets: Any) -> None:
    """Raise unless each token has a place in the text."""
    if not is_list(tokens) or not is_list(offsets):
        raise ValueError(
            f"{name} has {reprlib.repr(tokens)} as tokens and {reprlib.repr(offsets)} as offsets; "
            "both must be lists"
        )
    for place in offsets:
        is_span = is_list(place) and [isinstance(end, Integral) for end in place] == [True, True]
        if not is_span or not 0 <= place[0] <= place[1] <= len(text):
            raise ValueError(
                f"{name} has the offsets {reprlib.repr(place)}; each must be the (start, end) of a "
                f"token in the text, from 0 to {len(text)}"
            )


def check_weights(name: str, view: str, weights: Any, tokens: Any, offsets: Any) -> None:
    """Raise unless each token has a weight."""
    if not is_list(weights) or not all(isinstance(weight, Real) for weight in weights):
        raise ValueError(
            f"{name} has {reprlib.repr(weights)} as weights in {view}; they must be a list of "
            "numbers, one for each token"
        )
    if not len(weights) == len(tokens) == len(offsets):
        raise ValueError(
            f"{name} has {len(tokens)} tokens and {len(offsets)} offsets, but {len(weights)} "
            f"weights in {view}; the pipeline gives one of each to a token"
        )
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError(
            f"{name} has weights in {view} that are negative or not finite; the model that "
            "made it computed no attention. Check its weights for NaN"
        )


__all__ = [
    "FIELDS",
    "OF_A_TEXT",
    "Result",
    "check_places",
    "check_scores",
    "check_weights",
    "is_list",
    "label_text",
]
