"""What explains a prediction? Deletion and insertion curves, measured on the model itself.

Deletion removes the tokens with the highest scores step by step and follows the probability of the
class that the model predicts for the whole text. Insertion starts from an empty text and puts these
tokens back first. If the prediction depends on them, the deletion curve falls faster, and the
insertion curve rises faster, than in random order. The attention mask removes a token: the model
reads the rest exactly as a text without the token.

Shapes: B texts, T tokens, K attributions, S steps.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from .attributions import attributions, probability
from .dataset import Batch, EvaluationDataset

# Share of the tokens that is removed or inserted, rounded up to whole tokens.
PERCENTS = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
# Steps of ERASER (DeYoung et al., 2020), but for 1 %, in most texts the same token as 5 %.
EARLY_PERCENTS = (5, 10, 20, 50)
DIRECTIONS = ("deletion", "insertion")
MEASURES = ("deletion_area", "insertion_area", "comprehensiveness", "sufficiency")

NUM_RESAMPLES = 10_000


def measure_faithfulness(
    dataset: EvaluationDataset, *, seed: int = 42, **options: Any
) -> dict[str, Any]:
    """Compare attention, as an attribution, with the others; `options` are those of `attributions`.

    The tokens of both sentences of a pair are in one order; attention sums to the same in each, so
    the tokens of the shorter one tend to come first. The curves of the random orders of a text are
    averaged. The seed draws these orders and the resamples.

    Returns `metrics`: the `measures`, means over the texts, named `<attribution>_<measure>`.
    `differences`: attention minus each other attribution, `mean` with `low` and `high`, its 95 %
    confidence interval by the bootstrap over texts. `curves`: mean probabilities at `percents`.
    `cost`: seconds of the processor over those of one pass forward, which gives the prediction and
    the attention. With Integrated Gradients `convergence_error`: the mean distance of their sum
    from the change of the probability. Raises as `attributions` does.
    """
    curves: dict[str, np.ndarray] = {}
    seconds: Counter[str] = Counter()
    errors: list[float] = []
    shape = (len(DIRECTIONS), dataset.rows.num_rows, len(PERCENTS))
    for found in attributions(dataset, "Removing tokens", seed=seed, **options):
        own = probability_curves(dataset.model, found.batch, found.classes, found.scores)
        for name, part in found.by_name(own.cpu().numpy()).items():
            curves.setdefault(name, np.zeros(shape))[:, found.numbers] = part
        seconds.update(found.seconds)
        errors += () if found.errors is None else found.errors.abs().tolist()
    cost = {name: seconds[name] / seconds["attention"] for name in seconds if name in curves}
    summary = summarise(curves, seed) | {"cost": cost}
    return summary | ({"convergence_error": float(np.mean(errors))} if errors else {})


@torch.no_grad()
def probability_curves(
    model: PreTrainedModel, batch: Batch, classes: Tensor, scores: Sequence[Tensor]
) -> Tensor:
    """Return the probability of each text's class (B,) while tokens are removed, and inserted.

    The K scores have shape (B, T), the result (K, 2, B, S): deletion and insertion by `PERCENTS`.
    """
    real = batch["attention_mask"] != 0
    ranks = torch.cat([ranks_of(each, real) for each in scores])  # (K * B, T)
    counts = -(-real.sum(1, keepdim=True) * torch.tensor(PERCENTS, device=real.device) // 100)
    counts = counts.repeat(len(scores), 1)  # (K * B, S)

    def probabilities(left: Tensor) -> Tensor:  # `left`: tokens that remain, (B or K * B, T)
        rows = len(left) // len(real)
        masked = {name: part.repeat(rows, 1) for name, part in batch.items()}
        masked["attention_mask"] = (left & real.repeat(rows, 1)).long()
        return probability(model, masked, classes.repeat(rows)).double().unsqueeze(1)

    whole, nothing = probabilities(real), probabilities(torch.zeros_like(real))
    ends = [whole.repeat(len(scores), 1), nothing.repeat(len(scores), 1)]
    curves = []
    for is_deletion in (True, False):
        between = [
            probabilities((ranks < counts[:, step : step + 1]) != is_deletion)
            for step in range(1, len(PERCENTS) - 1)
        ]
        first, last = ends if is_deletion else reversed(ends)
        curves.append(torch.cat([first, *between, last], 1))
    stacked = torch.stack(curves, 1)  # (K * B, 2, S)
    return stacked.unflatten(0, (len(scores), -1)).transpose(1, 2)


def ranks_of(scores: Tensor, real: Tensor) -> Tensor:
    """Return the rank of each token in the order of the scores (B, T), 0 for the highest.

    Equal scores keep the order of the text, and padding comes last. `real` is True on real tokens.
    """
    order = scores.masked_fill(~real, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1)


def summarise(curves: Mapping[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Return the results of `measure_faithfulness` from curves (2, B, S) by attribution."""
    metrics: dict[str, float] = {}
    differences: dict[str, Any] = {}
    means: dict[str, Any] = {"percents": list(PERCENTS), **{each: {} for each in DIRECTIONS}}
    attention = measures(curves["attention"])
    for name, own in curves.items():
        found = measures(own)
        metrics |= {f"{name}_{measure}": float(found[measure].mean()) for measure in MEASURES}
        if name != "attention":
            differences[f"attention_minus_{name}"] = {
                measure: mean_with_interval(attention[measure] - found[measure], seed)
                for measure in MEASURES
            }
        for direction, mean in zip(DIRECTIONS, own.mean(1), strict=True):
            means[direction][name] = mean.tolist()
    return {"metrics": metrics, "differences": differences, "curves": means}


def measures(curves: np.ndarray) -> dict[str, np.ndarray]:
    """Return four measures of each text, by name, from curves of shape (2, B, S).

    - `deletion_area` (lower is better), `insertion_area` (higher is better): the deletion AUC and
      the insertion AUC, over the share of the text from 0 to 1, the empty text included;
    - `comprehensiveness` (higher is better), `sufficiency` (lower is better): how far the
      probability falls without the first tokens, or with these alone, mean over `EARLY_PERCENTS`.
    """
    early = [PERCENTS.index(percent) for percent in EARLY_PERCENTS]
    areas = np.trapezoid(curves, np.array(PERCENTS) / 100)
    falls = (curves[0, :, :1] - curves[..., early]).mean(-1)
    return dict(zip(MEASURES, (*areas, *falls), strict=True))


def mean_with_interval(values: np.ndarray, seed: int) -> dict[str, float]:
    """Return the mean of one number per text, with its 95 % percentile bootstrap interval."""
    rng = np.random.default_rng(seed)
    draws = (rng.choice(values, (100, len(values))) for _ in range(NUM_RESAMPLES // 100))
    means = [draw.mean(1) for draw in draws]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}
