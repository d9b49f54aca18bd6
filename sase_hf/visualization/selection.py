"""Which of many predictions are shown: some of each label, confident, wrong or random."""

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
        true_labels: Only `kind="wrong"` needs them.
        kind: One of `KINDS`: "confident" draws among the predictions with at least `min_score`,
            "wrong" among those of them that are wrong, "random" among all.
        per_label: How many to draw of each predicted label.
        min_score: The lowest score of a confident prediction, or of a wrong one.
        seed: The same seed draws the same predictions.

    Returns:
        Their indices: label by label in alphabetical order, ascending in each label.

    Raises:
        ValueError: If there is no such kind, or no prediction fits.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; allowed are {', '.join(KINDS)}")
    if kind == "wrong" and true_labels is None:
        raise ValueError("kind='wrong' needs true_labels; give them, or another kind")
    drawn_from: dict[str, list[int]] = {}
    for place, (label, score) in enumerate(zip(labels, scores, strict=True)):
        is_wrong = true_labels is not None and true_labels[place] != label
        if kind == "random" or (score >= min_score and (kind == "confident" or is_wrong)):
            drawn_from.setdefault(label, []).append(place)
    if not drawn_from:
        raise ValueError(
            f"none of {len(labels):,} predictions is {kind} with min_score {min_score}; lower "
            "min_score"
        )
    rng = random.Random(seed)
    return [
        place
        for _, places in sorted(drawn_from.items())
        for place in sorted(rng.sample(places, min(per_label, len(places))))
    ]
