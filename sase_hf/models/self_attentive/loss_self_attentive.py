"""The loss of the heads: task loss plus the penalty, right under any way to split a batch."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .configuration_self_attentive import SelfAttentiveConfig

IGNORED_LABEL = -100


def infer_problem_type(config: SelfAttentiveConfig, labels: Tensor) -> str:
    """Return the config's problem type, or the one that the labels leave no doubt about.

    Transformers would take floats for sets of labels and write that into the config in passing;
    without it a pipeline would show such a model's answers as if one label excluded the others.
    """
    if config.problem_type is not None:
        return str(config.problem_type)
    if config.num_labels == 1:
        return "regression"
    if labels.is_floating_point():
        raise ValueError(
            f"labels are {labels.dtype}, which may be sets of labels or numbers to predict; set "
            'config.problem_type to "multi_label_classification" or "regression"'
        )
    return "single_label_classification"


def penalised_loss(
    logits: Tensor,
    labels: Tensor,
    penalty: Tensor,
    config: SelfAttentiveConfig,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Return task loss + `penalty_coef` * mean penalty, the sum of section 2.2.

    Both parts are sums over the counted labels divided by their number. With `num_items_in_batch`,
    the labels that `Trainer` counted over all accumulated batches and processes, the parts of a
    split batch therefore add up to the loss and the gradient of the whole.

    Args:
        logits: Shape (B, num_labels).
        labels: Class ids (B,); or floats (B, num_labels), for one output also (B,). An entry of
            -100 does not count.
        penalty: Shape (B,). A sentence weighs as much as its counted labels.
        config: Says problem type, penalty coefficient and label smoothing.
        num_items_in_batch: Labels in the whole batch; by default those counted here.

    Returns:
        A scalar in float32 or wider.

    Raises:
        ValueError: If the shape of the labels is not one of those above, or if they are floats and
            the config does not say what for.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    problem_type = infer_problem_type(config, labels)
    _check_labels(labels, logits, problem_type)
    if problem_type == "single_label_classification":
        labels = labels.view(-1, 1).long()
        losses = F.cross_entropy(
            logits,
            labels.squeeze(1),
            ignore_index=IGNORED_LABEL,
            label_smoothing=config.label_smoothing,
            reduction="none",
        ).unsqueeze(1)
    else:
        labels = labels.view_as(logits).to(logits.dtype)
        regression = problem_type == "regression"
        loss = F.mse_loss if regression else F.binary_cross_entropy_with_logits
        losses = loss(logits, labels, reduction="none")
    counted = labels != IGNORED_LABEL  # (B, 1) or (B, num_labels)
    total = losses.masked_fill(~counted, 0).sum()
    total = total + config.penalty_coef * (penalty * counted.sum(1)).sum()
    if num_items_in_batch is None:
        return total / counted.sum().clamp(min=1)
    return total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)


def _check_labels(labels: Tensor, logits: Tensor, problem_type: str) -> None:
    """Raise unless there is a class id, or a number for every output, for every row of logits."""
    rows, outputs = logits.shape
    single = problem_type == "single_label_classification"
    allowed = [(rows,), (rows, 1)] if single or outputs == 1 else [(rows, outputs)]
    if tuple(labels.shape) not in allowed:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}; for {problem_type} with logits of shape "
            f"{tuple(logits.shape)} it must be {' or '.join(map(str, allowed))}. Class ids need "
            'config.problem_type = "single_label_classification", sets of labels '
            '"multi_label_classification"'
        )


def head_loss(
    logits: Tensor,
    labels: Tensor | None,
    penalty: Tensor,
    config: SelfAttentiveConfig,
    num_items_in_batch: Tensor | int | None,
) -> Tensor | None:
    """Return `penalised_loss`, or None without labels.

    Raises:
        ValueError: If `Trainer` counted labels but did not pass them on, as it does for
            `label_smoothing_factor` and `compute_loss_func`: the penalty would silently vanish.
    """
    if labels is not None:
        return penalised_loss(logits, labels, penalty, config, num_items_in_batch)
    has_penalty = config.has_attention and config.penalty_coef > 0
    if num_items_in_batch is not None and has_penalty:
        raise ValueError(
            "Trainer took the labels away from the model (label_smoothing_factor or "
            "compute_loss_func), which would drop the penalty from the loss. Set "
            "config.label_smoothing instead of label_smoothing_factor, or config.penalty_coef = 0"
        )
    return None


__all__ = ["IGNORED_LABEL", "head_loss", "infer_problem_type", "penalised_loss"]
