"""Rows whose label the other rows speak against: many of them have a wrong label.

The rows are in five parts. The regression over words of `linear_part.py` learns from four of them
how likely each label of a row of the fifth is, so that no row speaks for its own label. Rows with
equal texts are in one part. Where rows have one label each, what a model said in its training about
them is a second opinion: it learns a wrong label later than right ones.

Shapes: N rows, B of them in a part, T tokens, F features, L labels or numbers.
"""

import logging
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from datasets import Dataset
from scipy.sparse import csr_array
from torch import Tensor

from ..data.batching import batches_by_length, token_counts
from ..models.answers import (
    LEAST_PROBABILITY,
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Answers,
    answers_of,
)
from ..models.configuration_self_attentive import SelfAttentiveConfig
from ..models.linear_self_attentive import NUM_PAIRS, NUM_PARTS_OF_PAIR, LinearPart
from .linear_part import (
    BATCH_TOKENS,
    WordRegression,
    enough_row_numbers,
    features_of,
    fill,
    padded_batch,
    regression_of,
)

logger = logging.getLogger(__name__)

NUM_PARTS = 5
LEAST_ROWS = 50  # fewer say too little about one another
# scikit-learn's C. Wrong labels ask for more regularisation than the linear part of a model has.
STRENGTH = 0.1
MAX_ROWS = 1000  # that are returned: more than a person reads
# Of the rows, which are returned at most. On small files the regression disagrees with 30 to 70 %
# of the labels, and few of them are wrong beyond the first tenth.
MAX_SHARE = 0.1
MAX_LEARNT = 10_000_000  # features of the rows of a regression, times labels: some ten seconds
MAX_WEIGHTS = 10_000_000  # of a regression; with more, pairs of words are left out, or all
LEAST_ERROR = 2.0  # of a doubtful number, in deviations of the numbers


class Doubt(NamedTuple):
    """A row with a doubtful label.

    row: its number among the rows, from 0.
    doubt: -log of the probability of its label, the mean of both opinions if there are two; of
        numbers, the error in deviations.
    suggested: the label that the other rows suggest, in the form of `Answers.labels`. Of several
        labels or numbers it differs in the most doubtful one alone.
    probability: of the suggestion, and `label_probability` that of the label, which for several
        labels are those of the one that differs; None for numbers.
    spoken: how much each token of the row spoke for the suggestion and against the label, (T,).
    """

    row: int
    doubt: float
    suggested: Tensor
    probability: float | None
    label_probability: float | None
    spoken: list[float]


class Part(NamedTuple):
    """B of N rows, and what a regression says that learned from the others.

    numbers: of the rows, from 0, (B,).
    outputs: those of the regression, which are logits or numbers in deviations, (B, L).
    labels: of the rows, (B,) or (B, L).
    learned_labels: of the other rows.
    opinions: those of a model about the rows, if there is one, (B, L).
    """

    numbers: np.ndarray
    regression: WordRegression
    outputs: Tensor
    labels: Tensor
    learned_labels: Tensor
    opinions: Tensor | None = None


class _Judged(NamedTuple):
    """The labels of B rows, judged by a regression; `doubts` are 0 where it agrees."""

    doubts: Tensor  # (B,)
    suggested: Tensor  # (B,) or (B, L)
    weigh_outputs: Tensor  # of the outputs in what speaks for the suggestion, (B, L)
    probabilities: Tensor | None  # of the suggestions, (B,)
    label_probabilities: Tensor | None  # (B,)


def doubtful_rows(
    rows: Dataset,
    texts: np.ndarray,
    answers: Answers,
    num_words: int,
    *,
    opinions: Tensor | None = None,
    seed: int = 0,
    most: int = MAX_ROWS,
) -> list[Doubt]:
    """Return the rows whose label is doubtful, the most doubtful first, at most so many.

    Of rows with one label, those are doubtful for which another label is more likely; of rows with
    several labels, those with a label that is more likely to be wrong than right; of numbers, those
    that are `LEAST_ERROR` deviations off. At most `MAX_SHARE` of the rows are doubtful, and none
    whose label no other row has, or that has fewer than `LEAST_ROWS - 1` others.

    Args:
        rows: N rows with `input_ids` and `labels`, and for pairs `token_type_ids`.
        texts: A number for each text, the same for rows with equal texts, (N,).
        answers: What the labels are.
        num_words: The number of different token ids.
        opinions: Of a model, for rows with one label: the log of the probability of each label,
            (N, L), the mean of several moments of its training.
        seed: Of the parts.
        most: Doubts to return.

    Rows that are too many for memory are left out, evenly spaced, and a regression learns from
    evenly spaced rows where these are too many for some ten seconds; the log says so.
    """
    if rows.num_rows < LEAST_ROWS:
        return []
    config = config_of(rows, answers, num_words)
    if config is None:
        logger.warning(
            f"no doubtful labels are looked for: {num_words:,} words times {len(answers.names):,} "
            f"labels exceed the limit of {MAX_WEIGHTS:,} weights"
        )
        return []
    numbers = enough_row_numbers(rows, len(answers.names))
    if len(numbers) < rows.num_rows:
        logger.warning(
            f"doubtful labels are looked for in {len(numbers):,} of {rows.num_rows:,} training "
            "rows, evenly spaced, because all would take too long"
        )
        rows = rows.select(numbers)
    most = min(most, math.floor(MAX_SHARE * rows.num_rows))
    linear_part = LinearPart(config, reads_pairs="token_type_ids" in rows.column_names)
    labels = answers.labels(torch.tensor(rows["labels"][:]))
    judge = _JUDGES[answers.kind]
    doubts: list[Doubt] = []
    for part in parts_of(rows, labels, texts[numbers], linear_part, config, seed):
        if opinions is not None:
            part = part._replace(opinions=opinions[numbers[part.numbers]])
        judged = judge(part)
        worst_first = judged.doubts.argsort(descending=True, stable=True)
        worst = worst_first[judged.doubts[worst_first] > 0][:most]
        fill(linear_part, part.regression.weights)
        worst_rows = rows.select(part.numbers[worst.numpy()])
        spoken = _spoken(linear_part, worst_rows, judged.weigh_outputs[worst])
        for place, of_tokens in zip(worst.tolist(), spoken, strict=True):
            row = int(numbers[part.numbers[place]])
            doubts.append(_doubt(row, judged, place, of_tokens))
    doubts.sort(key=lambda doubt: (-doubt.doubt, doubt.row))
    return doubts[:most]


def _doubt(row: int, judged: _Judged, place: int, spoken: list[float]) -> Doubt:
    """Return the doubt about one of B judged rows."""
    probability = None
    label_probability = None
    if judged.probabilities is not None and judged.label_probabilities is not None:
        probability = judged.probabilities[place].item()
        label_probability = judged.label_probabilities[place].item()
    return Doubt(
        row=row,
        doubt=judged.doubts[place].item(),
        suggested=judged.suggested[place],
        probability=probability,
        label_probability=label_probability,
        spoken=spoken,
    )


def config_of(rows: Dataset, answers: Answers, num_words: int) -> SelfAttentiveConfig | None:
    """Return the config of a model with a linear part for such rows; None for too many weights."""
    num_parts = NUM_PARTS_OF_PAIR if "token_type_ids" in rows.column_names else 1
    num_weights = len(answers.names) * num_parts
    if num_words * num_weights > MAX_WEIGHTS:
        return None
    has_pairs = (num_words + NUM_PAIRS) * num_weights <= MAX_WEIGHTS
    fields: dict[str, Any] = {
        "vocab_size": num_words,
        "problem_type": answers.kind,
        "id2label": dict(enumerate(answers.names)),
        "linear_part": "words_and_pairs" if has_pairs else "words",
    }
    return SelfAttentiveConfig(**fields)


def parts_of(
    rows: Dataset,
    labels: Tensor,
    texts: np.ndarray,
    linear_part: LinearPart,
    config: SelfAttentiveConfig,
    seed: int,
) -> Iterator[Part]:
    """Yield the parts of N rows, without those that the other rows say nothing about.

    `labels` are those of `Answers.labels`, and the linear part is one of the `config`. The other
    arguments are those of `doubtful_rows`.
    """
    counts = features_of(rows, linear_part)
    _, text_of_row = np.unique(texts, return_inverse=True)
    order_of_text = np.random.default_rng(seed).permutation(text_of_row.max(initial=-1) + 1)
    part_of_row = order_of_text[text_of_row] % NUM_PARTS
    for number in range(NUM_PARTS):
        numbers = np.flatnonzero(part_of_row == number)
        others = np.flatnonzero(part_of_row != number)
        if not len(numbers) or not len(others):
            continue
        enough = _few_enough(others, counts, len(answers_of(config).names))
        if len(enough) < len(others) and number == 0:
            logger.info(
                f"doubtful labels are judged by {len(enough):,} of {len(others):,} other rows, "
                "evenly spaced, because all would take too long"
            )
        others = enough
        learned = labels[torch.from_numpy(others)]
        regression = regression_of(
            counts[others], learned.numpy(), linear_part, config, strength=STRENGTH
        )
        if regression is not None:
            outputs = regression.outputs_of(counts[numbers])
            judged = labels[torch.from_numpy(numbers)]
            yield Part(numbers, regression, outputs, judged, learned)


def _few_enough(rows: np.ndarray, counts: csr_array, num_labels: int) -> np.ndarray:
    """Return the numbers of as many rows, of N with `counts` (N, F), as `MAX_LEARNT` allows."""
    num_entries = int(np.diff(counts.indptr)[rows].sum()) * num_labels
    if num_entries <= MAX_LEARNT:
        return rows
    num_rows = max(len(rows) * MAX_LEARNT // num_entries, 1)
    return rows[np.linspace(0, len(rows) - 1, num_rows).astype(int)]


# ---- judges of each kind of answers --------------------------------------------------------------


def _judge_one_label(part: Part) -> _Judged:
    """Judge one label per row, by the regression and the model if there is one."""
    log_probabilities = part.outputs.log_softmax(-1)
    if part.opinions is not None:
        log_probabilities = (log_probabilities + part.opinions) / 2
    probabilities = log_probabilities.softmax(-1)
    largest, best = probabilities.max(-1)
    given = part.labels.unsqueeze(1)
    losses = -log_probabilities.gather(1, given).squeeze(1)
    is_known = torch.isin(part.labels, part.learned_labels)
    is_doubtful = (best != part.labels) & is_known
    num_labels = part.outputs.shape[1]
    return _Judged(
        doubts=torch.where(is_doubtful, losses, 0.0),
        suggested=best,
        weigh_outputs=F.one_hot(best, num_labels) - F.one_hot(part.labels, num_labels),
        probabilities=largest,
        label_probabilities=probabilities.gather(1, given).squeeze(1),
    )


def _judge_several_labels(part: Part) -> _Judged:
    """Judge the most doubtful one of several labels per row."""
    applies = part.labels > 0
    probabilities = part.outputs.sigmoid()
    of_labels = torch.where(applies, probabilities, 1 - probabilities)  # (B, L)
    learned = part.learned_labels > 0
    is_known = learned.any(0) & ~learned.all(0)  # (L,)
    of_labels = of_labels.where(is_known, 1.0)
    of_worst, worst = of_labels.min(-1)
    is_worst = F.one_hot(worst, len(is_known)) > 0
    signs = torch.where(applies, -1, 1)
    return _Judged(
        doubts=torch.where(of_worst < LEAST_PROBABILITY, -of_worst.log(), 0.0),
        suggested=(applies ^ is_worst).float(),
        weigh_outputs=signs * is_worst,
        probabilities=1 - of_worst,
        label_probabilities=of_worst,
    )


def _judge_numbers(part: Part) -> _Judged:
    """Judge the number of each row that is furthest off."""
    distances = part.outputs - part.regression.centred(part.labels)  # in deviations
    furthest, worst = distances.abs().max(-1)
    is_worst = F.one_hot(worst, distances.shape[1]) > 0
    deviation = torch.from_numpy(part.regression.deviation)
    mean = torch.from_numpy(part.regression.mean)
    predicted = part.outputs * deviation + mean
    return _Judged(
        doubts=furthest.where(furthest >= LEAST_ERROR, 0.0),
        suggested=torch.where(is_worst, predicted, part.labels.double()),
        weigh_outputs=distances.sign() * is_worst,
        probabilities=None,
        label_probabilities=None,
    )


_JUDGES = {
    SINGLE_LABEL: _judge_one_label,
    MULTI_LABEL: _judge_several_labels,
    REGRESSION: _judge_numbers,
}


# ---- the words -----------------------------------------------------------------------------------


@torch.no_grad()
def _spoken(linear_part: LinearPart, rows: Dataset, weigh_outputs: Tensor) -> list[list[float]]:
    """Return what each token of B rows added to the outputs, which have weights (B, L)."""
    lengths = token_counts(rows)
    names = ["input_ids", "token_type_ids"] if linear_part.reads_pairs else ["input_ids"]
    spoken: list[list[float]] = [[]] * len(lengths)
    for numbers in batches_by_length(lengths, BATCH_TOKENS):
        batch = padded_batch(rows.select(numbers), names)
        ids = batch["input_ids"]
        mask = batch["attention_mask"]
        weights = weigh_outputs[numbers].float()
        added = linear_part.added(ids, mask, batch.get("token_type_ids"), weights)
        for number, of_tokens in zip(numbers, added.tolist(), strict=True):
            spoken[number] = of_tokens[: lengths[number]]
    return spoken
