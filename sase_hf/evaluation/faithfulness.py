"""Is attention an explanation? Deletion and insertion curves, measured on the model itself.

Deletion: take the most attended tokens out of a text, step by step, and watch the probability of
the class that the whole text gets. Insertion: start from nothing and put them back, most attended
first. If attention names the tokens that the answer rests on, the first curve falls faster, and the
second one rises faster, than in random order. Integrated Gradients (Sundararajan et al., 2017),
which asks the gradient of the answer, is the rival. Tokens are taken out by the attention mask: the
model reads what is left exactly as a text without them.

Shapes: B texts, T tokens, K rankings, S steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.labels import SINGLE_LABEL
from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel
from .dataset import Batch, Sample
from .rankings import integrated_gradients, places_by_score, predict, random_scores

# How much of a text is taken out, or put in; a share of a token counts as a whole one.
PERCENTS = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
# The steps over which ERASER (DeYoung et al., 2020) averages, but for its 1 %, which in most texts
# is the same token as 5 %.
EARLY_PERCENTS = (5, 10, 20, 50)
DIRECTIONS = ("deletion", "insertion")
MEASURES = ("deletion_area", "insertion_area", "comprehensiveness", "sufficiency")

CONFIDENCE_PERCENT = 95
NUM_RESAMPLES = 10_000


def measure_faithfulness(
    sample: Sample,
    *,
    integrated_gradients_steps: int = 16,
    random_orders: int = 3,
    batch_size: int = 32,
    seed: int = 42,
) -> dict[str, Any]:
    """Compare attention, as a ranking of tokens, with random order and Integrated Gradients.

    Integrated Gradients know the class, and tell what speaks for it from what speaks against it;
    attention does not. So they are a ranking twice, with their sign and without it, as
    `integrated_gradients_unsigned`.

    Each ranking has four measures, means over the texts:

    - `deletion_area`, `insertion_area`: areas under its two curves over the share of the text, from
      0 to 1; the lower the first and the higher the second, the better;
    - `comprehensiveness`, `sufficiency`: how far the probability falls when its first tokens are
      taken out, or when nothing but these is left, mean over `EARLY_PERCENTS`; the higher the
      first and the lower the second, the better.

    Three things to know when reading them. The areas include the step to the empty text, whose
    probability is that of no words at all and the same for each ranking. A share of a text is
    rounded up to whole tokens, so several steps of a short text have the same number of tokens. In
    a pair both sentences are ranked in one list; as the attention in each sums to the same, the
    words of the shorter one tend to come first.

    Args:
        sample: A classifier and its texts.
        integrated_gradients_steps: Steps of the integral; 0 leaves this ranking out.
        random_orders: Orders drawn for each text; their curves are averaged.
        batch_size: Texts in a batch.
        seed: Of the orders drawn and of the resampling.

    Returns:
        `metrics`: the measures, named `<ranking>_<measure>`. `differences`: attention minus each
        other ranking, `mean` with the bounds `low` and `high` of a 95 % confidence interval from
        resampling the texts. `curves`: mean probabilities at `percents`. With Integrated Gradients
        also `convergence_error`: how far their sum is, on average, from the change it explains.

    Raises:
        ValueError: If the model gives no single label, an argument is out of range, or a score or a
            probability is no number.
        ImportError: If Captum is needed and missing.
    """
    _check(sample, integrated_gradients_steps, random_orders)
    kinds = ["attention", *["random"] * random_orders]
    if integrated_gradients_steps:
        kinds += ["integrated_gradients", "integrated_gradients_unsigned"]
    curves = np.zeros((len(kinds), len(DIRECTIONS), sample.rows.num_rows, len(PERCENTS)))
    errors: list[float] = []
    for numbers, batch in sample.batches(batch_size, "Taking tokens out"):
        classes, attention = predict(sample.model, batch)
        scores = [attention, *random_scores(attention, numbers, random_orders, seed)]
        if integrated_gradients_steps:
            gradients, error = integrated_gradients(
                sample.model, batch, classes, integrated_gradients_steps
            )
            scores += [gradients, gradients.abs()]
            errors += error.abs().tolist()
        curves[:, :, numbers] = probability_curves(sample.model, batch, classes, scores).cpu()
    rankings = {
        kind: curves[[row for row, other in enumerate(kinds) if other == kind]].mean(0)
        for kind in dict.fromkeys(kinds)
    }
    summary = summarise(rankings, seed)
    return summary | ({"convergence_error": float(np.mean(errors))} if errors else {})


@torch.no_grad()
def probability_curves(
    model: SelfAttentivePreTrainedModel, batch: Batch, classes: Tensor, scores: Sequence[Tensor]
) -> Tensor:
    """Return the probability of a class while tokens are taken out, and while they are put in.

    Args:
        model: A classifier.
        batch: What it reads, the whole texts.
        classes: A class id for each text, shape (B,).
        scores: K rankings of shape (B, T); the highest score goes first.

    Returns:
        Shape (K, 2, B, S): deletion and insertion, at each of `PERCENTS`.

    Raises:
        ValueError: If a score or a probability is not a finite number.
    """
    real = batch["attention_mask"] != 0
    places = torch.cat([places_by_score(each, real) for each in scores])  # (K * B, T)
    counts = -(-real.sum(1, keepdim=True) * torch.tensor(PERCENTS, device=real.device) // 100)
    counts = counts.repeat(len(scores), 1)  # (K * B, S)

    def probabilities(left: Tensor) -> Tensor:  # of what is left of the texts, (B or K * B, T)
        rows = len(left) // len(real)
        masked = {name: part.repeat(rows, 1) for name, part in batch.items()}
        masked["attention_mask"] = (left & real.repeat(rows, 1)).long()
        chosen = classes.repeat(rows).unsqueeze(1)
        return model(**masked).logits.softmax(-1).gather(1, chosen).double()

    whole, nothing = probabilities(real), probabilities(torch.zeros_like(real))
    ends = [whole.repeat(len(scores), 1), nothing.repeat(len(scores), 1)]
    curves = []
    for takes_out in (True, False):
        between = [
            probabilities((places < counts[:, step : step + 1]) != takes_out)
            for step in range(1, len(PERCENTS) - 1)
        ]
        first, last = ends if takes_out else reversed(ends)
        curves.append(torch.cat([first, *between, last], 1))
    stacked = torch.stack(curves, 1)  # (K * B, 2, S)
    if not stacked.isfinite().all():
        raise ValueError(
            f"{model.name_or_path or 'the model'} gives probabilities that are no numbers; its "
            "weights are bad, so name another checkpoint"
        )
    return stacked.unflatten(0, (len(scores), -1)).transpose(1, 2)


def summarise(rankings: Mapping[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Turn the curves of single texts into what `measure_faithfulness` returns.

    Args:
        rankings: For each ranking its curves, shape (2, texts, S); one is "attention".
        seed: Of the resampling.

    Returns:
        `metrics`, `differences`, `curves`.
    """
    measured = {name: measures(curves) for name, curves in rankings.items()}
    means = {name: curves.mean(1) for name, curves in rankings.items()}
    return {
        "metrics": {
            f"{ranking}_{measure}": float(values.mean())
            for ranking, by_measure in measured.items()
            for measure, values in by_measure.items()
        },
        "differences": {
            f"attention_minus_{other}": {
                measure: mean_with_interval(values - by_measure[measure], seed)
                for measure, values in measured["attention"].items()
            }
            for other, by_measure in measured.items()
            if other != "attention"
        },
        "curves": {
            "percents": list(PERCENTS),
            **{
                direction: {name: mean[number].tolist() for name, mean in means.items()}
                for number, direction in enumerate(DIRECTIONS)
            },
        },
    }


def measures(curves: np.ndarray) -> dict[str, np.ndarray]:
    """Return the four measures of each text, by name, from curves of shape (2, texts, S)."""
    shares = np.array(PERCENTS) / 100
    early = [PERCENTS.index(percent) for percent in EARLY_PERCENTS]
    whole = curves[0, :, :1]
    areas = np.trapezoid(curves, shares)
    falls = (whole - curves[..., early]).mean(-1)
    return dict(zip(MEASURES, (*areas, *falls), strict=True))


def mean_with_interval(values: np.ndarray, seed: int) -> dict[str, float]:
    """Return the mean of numbers, one a text, and its 95 % bootstrap interval by percentiles."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(values, len(values)).mean() for _ in range(NUM_RESAMPLES)]
    tail = (100 - CONFIDENCE_PERCENT) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


def _check(sample: Sample, steps: int, random_orders: int) -> None:
    # Left open by the stock Trainer, it is a single label: with one output it would be regression.
    problem_type = sample.model.config.problem_type or SINGLE_LABEL
    if problem_type != SINGLE_LABEL:
        raise ValueError(
            f"the model's problem_type is {problem_type!r}; these curves follow the probability of "
            f"one class, so it must be {SINGLE_LABEL!r}"
        )
    if steps < 0 or random_orders < 1:
        raise ValueError(
            f"integrated_gradients_steps is {steps} and random_orders is {random_orders}; they "
            "must be at least 0 and at least 1"
        )


__all__ = [
    "DIRECTIONS",
    "EARLY_PERCENTS",
    "MEASURES",
    "PERCENTS",
    "mean_with_interval",
    "measure_faithfulness",
    "measures",
    "probability_curves",
    "summarise",
]
