"""Labels that are rarer or more frequent in use than they were in training.

A classifier learns p(label | text) together with how frequent each label was among its training
rows. Where new rows have other frequencies and these are known, its scores can be put right.
"""

from torch import Tensor


def adapt(logits: Tensor, trained_prior: Tensor, prior: Tensor) -> Tensor:
    """Return the logits of a model for rows with other label frequencies than its training rows.

    By Bayes' rule p(label | text) changes by the ratio of the frequencies. The same can be kept in
    a model: add log(prior / trained_prior) to the bias of its output layer.

    Args:
        logits: Of one label among several, shape (B, num_labels).
        trained_prior: Share of each label among the training rows, shape (num_labels,).
        prior: Share of each label among these rows, shape (num_labels,).

    Returns:
        Shape (B, num_labels).

    Raises:
        ValueError: If a share is not above zero, so that no ratio says what to do.
    """
    for name, shares in {"trained_prior": trained_prior, "prior": prior}.items():
        if not (shares > 0).all():
            raise ValueError(
                f"{name} is {shares.tolist()}; each label needs a share above 0. Count one row "
                "more of every label, or leave out the label"
            )
    return logits + (prior / trained_prior).log()


def cross_fitted_accuracy(logits: Tensor, labels: Tensor, trained_prior: Tensor) -> float:
    """Return the accuracy with label frequencies that were counted on other rows.

    Each half of the rows, every second one, is scored with the frequencies of the other half, so
    that no row has a part in its own score. Every label counts as one row more than there are.

    Args:
        logits: Shape (B, num_labels).
        labels: Class ids, shape (B,).
        trained_prior: Share of each label among the training rows, shape (num_labels,).
    """
    right = 0
    for half in (0, 1):
        counts = labels[1 - half :: 2].bincount(minlength=logits.shape[1]) + 1
        adapted = adapt(logits[half::2], trained_prior, counts / counts.sum())
        right += int((adapted.argmax(1) == labels[half::2]).sum())
    return right / len(labels)


__all__ = ["adapt", "cross_fitted_accuracy"]
