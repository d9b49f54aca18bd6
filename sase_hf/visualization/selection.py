"""Which of many predictions are looked at: some of each label, confident or wrong."""

import random
from collections.abc import Sequence

KINDS = ("confident", "wrong", "random")


def select_predictions(
    labels: Sequence[str],
    scores: Sequence[float],
    true_labels: Sequence[str] | None = None,
    *,
    kind: str = "confident",
    per_label: int = 5,
    min_score: float = 0.8,
    seed: int = 0,
) -> list[int]:
    """Draw predictions by label, as the texts of the paper's Figure 2 were drawn.

    Args:
        labels: The predicted label of every text.
        scores: Their scores.
        true_labels: What the labels should have been; only `kind="wrong"` needs them.
        kind: One of `KINDS`: "confident" draws among the predictions with at least `min_score`,
            "wrong" among those of them that are wrong, and "random" among all.
        per_label: How many to draw of each predicted label.
        min_score: The least score of a confident prediction.
        seed: The same seed draws the same ones.

    Returns:
        Their places, label by label in alphabetical order, in each label as they came.

    Raises:
        ValueError: If an argument is none of those allowed, or nothing is left to draw from.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; allowed are {', '.join(KINDS)}")
    if per_label < 1:
        raise ValueError(f"per_label is {per_label}; it must be 1 or more")
    if kind == "wrong" and true_labels is None:
        raise ValueError("which predictions are wrong only true labels can tell; give them")
    drawn_from: dict[str, list[int]] = {}
    for place, (label, score) in enumerate(zip(labels, scores, strict=True)):
        is_wrong = true_labels is not None and true_labels[place] != label
        if kind == "random" or (score >= min_score and (kind == "confident" or is_wrong)):
            drawn_from.setdefault(label, []).append(place)
    if not drawn_from:
        which = "wrong with" if kind == "wrong" else "made with"
        raise ValueError(
            f"none of {len(labels):,} predictions is {which} a score of {min_score} or more; lower "
            "min_score"
        )
    rng = random.Random(seed)
    return [
        place
        for _, places in sorted(drawn_from.items())
        for place in sorted(rng.sample(places, min(per_label, len(places))))
    ]


__all__ = ["KINDS", "select_predictions"]
