"""The training rows that a trained model keeps, to say how like them a new text is.

Shapes: N rows that are kept, W numbers of a sentence matrix, of a pair those of both.
"""

import logging
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.table import texts_of
from ...evaluation.baselines import labels_of
from ...evaluation.linear_part import outputs_for
from ...models.checkpoint import NEIGHBOURS_NAME
from ...training.task import TrainingSetup
from ...utils.neighbours import STEPS, Neighbours, strangeness, unknown_shares

logger = logging.getLogger(__name__)

NUM_ROWS = 300  # training rows that are kept; 1,000 tell few more strange texts from others
NUM_HELD_OUT = 1_000  # rows that were not learned, whose distances are kept
LEAST_UNIT = 0.1  # of a number of the matrices, as a share of the mean deviation


def keep_neighbours(setup: TrainingSetup, *, keeps_texts: bool) -> None:
    """Give a trained model some training rows, and the distances of held-out rows to them.

    No random number is drawn from the generators of the run. Without validation rows, nothing is
    kept.
    """
    if "validation" not in setup.tokens:
        return
    model: Any = setup.model
    matrices_of = partial(outputs_for, model, name="sentence_embedding")
    train = setup.tokens["train"]
    labels = labels_of(train, setup.rows.answers)
    chosen = _of_all_labels(labels)
    matrices = matrices_of(train.select(chosen))
    deviation = matrices.std(0, correction=0)
    unit = deviation.clamp(min=max(LEAST_UNIT * deviation.mean().item(), 1e-6))
    mean = matrices.mean(0)
    steps = ((matrices - mean) / unit * STEPS).round().clamp(-127, 127)
    texts = setup.rows.splits["train"].select(chosen)
    kept = Neighbours(
        rows=steps.to(torch.int8),
        mean=mean,
        unit=unit,
        labels=labels[chosen],
        held_out=torch.zeros(0),
        texts=[[*row.values()] for row in texts_of(texts)],
        keeps_texts=keeps_texts,
    )
    held_out = setup.tokens["validation"]
    held_out = held_out.select(_shuffled(held_out.num_rows)[:NUM_HELD_OUT])
    unknown = unknown_shares(held_out["input_ids"][:], setup.tokenizer.unk_token_id)
    strange = strangeness(kept.distances(matrices_of(held_out)), unknown)
    model.neighbours = kept._replace(held_out=strange.sort().values)
    without = "with" if keeps_texts else "without"
    logger.info(
        f"neighbours: {len(chosen)} training rows stay in {NEIGHBOURS_NAME} as numbers, with their "
        f"labels, {without} their texts"
    )


def _shuffled(count: int) -> np.ndarray:
    """Return the numbers of rows in an order that is always the same."""
    return np.random.default_rng(0).permutation(count)


def _of_all_labels(labels: Tensor) -> np.ndarray:
    """Return the numbers of the rows to keep, (N,): of each label as many, while it has some."""
    order = _shuffled(len(labels))
    names = pd.Series([str(label) for label in labels[order].tolist()])
    turns = names.groupby(names).cumcount()
    return order[np.argsort(turns, kind="stable")[:NUM_ROWS]]
