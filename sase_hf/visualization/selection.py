"""The choice of the predictions to show: confident, wrong or random ones of each label."""

import random
from collections.abc import Sequence

from ..models.answers import answers_of_kind
from .attended_text import Result, is_right

SELECT = ("confident", "wrong", "random")
CONFIDENT = 0.8  # the least score of a confident prediction


def select_predictions(
    results: Sequence[Result], select: str = "confident", per_label: int = 5, seed: int = 0
) -> list[int]:
    """Draw predictions by label, as the texts of the paper's Figure 2 were drawn.

    Of each predicted label `per_label` are drawn: "confident" ones with a score of at least
    `CONFIDENT`; "wrong" ones that differ from the `true_label` in each result; or "random" ones,
    the only ones of numbers. Returns their indices: label by label in alphabetical order, ascending
    in each label.

    Raises ValueError if there is no such `select`, or no prediction fits.
    """
    if select not in SELECT:
        raise ValueError(f"select is {select!r}; allowed are {', '.join(SELECT)}")
    drawn_from: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        fits = {
            "confident": answers_of_kind(result["kind"]).has_labels
            and result["score"] >= CONFIDENT,
            "wrong": is_right(result) is False,
            "random": True,
        }
        if fits[select]:
            drawn_from.setdefault(result["label"], []).append(place)
    if not drawn_from:
        raise ValueError(
            f"none of {len(results):,} predictions is known to be {select}; select random ones"
        )
    rng = random.Random(seed)
    return [
        place
        for _, places in sorted(drawn_from.items())
        for place in sorted(rng.sample(places, min(per_label, len(places))))
    ]
