"""The columns that predictions of labels add to a file of rows."""

from typing import Any

from torch import Tensor

from ...models.answers import Answers


def predicted_labels(logits: Tensor, answers: Answers) -> list[dict[str, Any]]:
    """Return the columns of predictions for rows with these logits (B, C).

    One label: `predicted_label`, `confidence` (its probability), the probability of every label in
    `scores`, and with a threshold `answer_set`, the labels that may be right. Several labels:
    `predicted_labels` and `scores`. Numbers: `predicted_` and the name of each.
    """
    return [answers.columns(scores) for scores in answers.scores(logits.float()).tolist()]
