"""Rows read by a pipeline, and the choice of those to show: confident, wrong or random ones."""

import random
from collections.abc import Sequence
from typing import Any

from transformers import Pipeline, PreTrainedModel, pipeline
from transformers.utils import logging

from ..models.answers import answers_of
from .attended_text import Result, is_right

SELECT = ("confident", "wrong", "random")

Row = tuple[object, dict[str, object]]  # an input of the pipeline; its `true_label` if there is one


def read_rows(
    reader: Pipeline,
    rows: Sequence[Row],
    batch_size: int,
    target: str | None = None,
) -> list[Result]:
    """Return the results of the `self-attention` pipeline for rows, with their true labels.

    A batch of rows of similar length needs little padding. `target`
    is the label that the contributions explain, by default the best label of each row.
    """
    results = reader((text for text, _ in rows), batch_size=batch_size, target=target)
    bar = logging.tqdm(zip(results, rows, strict=True), desc="Reading", total=len(rows), delay=1)
    return [result | known for result, (_, known) in bar]


def read_answers(reader: Pipeline, rows: Sequence[Row], batch_size: int) -> list[Result]:
    """Return what `select_predictions` needs of the results of `read_rows`, and no more.

    Those results also hold what each hop and word added, about a kilobyte for each token.
    """
    classify: Any = pipeline("text-classification", model=reader.model, tokenizer=reader.tokenizer)
    answers = answers_of(reader.model.config)
    scored = classify((text for text, _ in rows), batch_size=batch_size, top_k=None)
    bar = logging.tqdm(zip(scored, rows, strict=True), desc="Reading", total=len(rows), delay=1)
    results = []
    for labels, (_, known) in bar:
        score_of_label = {label["label"]: label["score"] for label in labels}
        scores = [score_of_label[name] for name in answers.names]
        results.append(answers.result(scores) | known)
    return results


def check_select(select: str, model: PreTrainedModel, rows: Sequence[Row], file: str) -> None:
    """Raise ValueError if a model's predictions for the rows of a file cannot be so selected."""
    reason = ""
    if not answers_of(model.config).has_labels and select != "random":
        reason = f"{model.name_or_path} predicts numbers; give --select random"
    elif select == "wrong" and not all(known for _, known in rows):
        reason = f"{file} has rows without a label; give --label_column_name"
    if reason:
        raise ValueError(f"--select is {select!r}, but {reason}")


def select_predictions(
    results: Sequence[Result],
    select: str = "confident",
    per_label: int = 5,
    min_score: float | None = None,
    seed: int = 0,
) -> list[int]:
    """Draw predictions by label, as the texts of the paper's Figure 2 were drawn.

    Of each predicted label `per_label` are drawn: "confident" ones with at least `min_score`, by
    default 0.8; "wrong" ones that differ from the `true_label` in each result; or "random" ones.
    Returns their indices: label by label in alphabetical order, ascending in each label.

    Raises ValueError if there is no such `select`, or no prediction fits.
    """
    if select not in SELECT:
        raise ValueError(f"select is {select!r}; allowed are {', '.join(SELECT)}")
    if min_score is None:
        min_score = 0.8 if select == "confident" else 0.0
    drawn_from: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        fits = select != "wrong" or is_right(result) is False
        if select == "random" or (result["score"] >= min_score and fits):
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
