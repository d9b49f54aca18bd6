"""Rows read by a pipeline, and the choice of those to show: confident, wrong or random ones."""

import random
from collections.abc import Sequence
from typing import Any

from transformers.utils import logging

from ..data.labels import MULTI_LABEL, REGRESSION
from .attended_text import Result

SELECT = ("confident", "wrong", "random")

Row = tuple[Any, dict[str, Any]]  # an input of the pipeline; its `true_label` if there is one


def read_rows(
    reader: Any, rows: Sequence[Row], batch_size: int, max_seq_length: int | None = None
) -> list[dict[str, Any]]:
    """Return the results of the `self-attention` pipeline for rows, with their true labels.

    Args:
        reader: The pipeline.
        rows: Inputs and true labels; a batch of texts of similar length needs little padding.
        batch_size: How many rows are read at once.
        max_seq_length: The tokens after which a text or a pair is cut; None for whole texts, or for
            those that a pretrained encoder can read.
    """
    options: dict[str, Any] = {}
    if max_seq_length is not None:
        options = {"max_length": max_seq_length}
    elif getattr(reader.model.config, "encoder", None) == "auto_model":
        options = {"truncation": True}
    results = reader((text for text, _ in rows), batch_size=batch_size, **options)
    bar = logging.tqdm(zip(results, rows, strict=True), desc="Reading", total=len(rows), delay=1)
    return [result | known for result, (_, known) in bar]


def check_select(select: str, problem_type: str | None, rows: Sequence[Row]) -> None:
    """Raise ValueError if a model, by its problem type, cannot be confident or wrong about rows."""
    if problem_type == REGRESSION and select != "random":
        raise ValueError(f"select is {select!r}, but the model predicts numbers; set 'random'")
    if problem_type == MULTI_LABEL and select == "wrong":
        raise ValueError("select is 'wrong', but the model predicts sets of labels; set another")
    if select == "wrong" and not all(known for _, known in rows):
        raise ValueError("select is 'wrong', but rows have no label; set label_column_name")


def select_predictions(
    results: Sequence[Result],
    select: str = "confident",
    per_label: int = 5,
    min_score: float | None = None,
    seed: int = 0,
) -> list[int]:
    """Draw predictions by label, as the texts of the paper's Figure 2 were drawn.

    Args:
        results: What the `self-attention` pipeline returned; "wrong" needs a `true_label` in each.
        select: "confident" draws among the predictions with at least `min_score`, "wrong" among
            those of them that differ from the true label, "random" among all.
        per_label: How many to draw of each predicted label.
        min_score: The lowest score of a prediction, by default 0.8 for "confident", else 0.
        seed: The same seed draws the same predictions.

    Returns:
        Their indices: label by label in alphabetical order, ascending in each label.

    Raises:
        ValueError: If there is no such `select`, or no prediction fits.
    """
    if select not in SELECT:
        raise ValueError(f"select is {select!r}; allowed are {', '.join(SELECT)}")
    if min_score is None:
        min_score = 0.8 if select == "confident" else 0.0
    drawn_from: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        is_wrong = select != "wrong" or result["true_label"] != result["label"]
        if select == "random" or (result["score"] >= min_score and is_wrong):
            drawn_from.setdefault(result["label"], []).append(place)
    if not drawn_from:
        raise ValueError(
            f"none of {len(results):,} predictions is {select} with min_score {min_score}; lower "
            "min_score"
        )
    rng = random.Random(seed)
    return [
        place
        for _, places in sorted(drawn_from.items())
        for place in sorted(rng.sample(places, min(per_label, len(places))))
    ]
