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
from scipy.stats import bootstrap
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
    for scored in attributions(dataset, "Removing tokens", seed=seed, **options):
        measured = probability_curves(dataset.model, scored.batch, scored.classes, scored.scores)
        for name, of_batch in scored.by_name(measured.cpu().numpy()).items():
            curves.setdefault(name, np.zeros(shape))[:, scored.numbers] = of_batch
        seconds.update(scored.seconds)
        if scored.errors is not None:
            errors.extend(scored.errors.abs().tolist())
    summary = summarise(curves, seed)
    summary["cost"] = {
        name: spent / seconds["attention"] for name, spent in seconds.items() if name in curves
    }
    if errors:
        summary["convergence_error"] = float(np.mean(errors))
    return summary


@torch.no_grad()
def probability_curves(
    model: PreTrainedModel, batch: Batch, classes: Tensor, scores: Sequence[Tensor]
) -> Tensor:
    """Return the probability of each text's class (B,) while tokens are removed, and inserted.

    The K scores have shape (B, T), the result (K, 2, B, S): deletion and insertion by `PERCENTS`.
    """
    real = batch["attention_mask"] != 0
    num_scores = len(scores)
    ranks = torch.cat([ranks_of(each, real) for each in scores])  # (K * B, T)
    percents = torch.tensor(PERCENTS, device=real.device)
    counts = (real.sum(1, keepdim=True) * percents + 99) // 100  # rounded up
    counts = counts.repeat(num_scores, 1)  # (K * B, S)

    def probabilities(left: Tensor) -> Tensor:
        """Return those of texts with the tokens `left`, (B or K * B, T)."""
        repeats = len(left) // len(real)
        masked = {name: values.repeat(repeats, 1) for name, values in batch.items()}
        masked["attention_mask"] = (left & real.repeat(repeats, 1)).long()
        return probability(model, masked, classes.repeat(repeats)).double().unsqueeze(1)

    whole = probabilities(real).repeat(num_scores, 1)
    nothing = probabilities(torch.zeros_like(real)).repeat(num_scores, 1)
    deletion = [whole]
    insertion = [nothing]
    for count in counts[:, 1:-1].T:
        is_first = ranks < count.unsqueeze(1)
        deletion.append(probabilities(~is_first))
        insertion.append(probabilities(is_first))
    deletion.append(nothing)
    insertion.append(whole)
    curves = torch.stack([torch.cat(deletion, 1), torch.cat(insertion, 1)])  # (2, K * B, S)
    return curves.unflatten(1, (num_scores, -1)).transpose(0, 1)


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
    means: dict[str, dict[str, list[float]]] = {direction: {} for direction in DIRECTIONS}
    measured = {name: measures(of_name) for name, of_name in curves.items()}
    for name, of_name in measured.items():
        for measure, values in of_name.items():
            metrics[f"{name}_{measure}"] = float(values.mean())
        if name != "attention":
            differences[f"attention_minus_{name}"] = {
                measure: mean_with_interval(measured["attention"][measure] - values, seed)
                for measure, values in of_name.items()
            }
        for direction, curve in zip(DIRECTIONS, curves[name].mean(1), strict=True):
            means[direction][name] = curve.tolist()
    return {
        "metrics": metrics,
        "differences": differences,
        "curves": {"percents": list(PERCENTS), **means},
    }


def measures(curves: np.ndarray) -> dict[str, np.ndarray]:
    """Return four measures of each text, by name, from curves of shape (2, B, S).

    - `deletion_area` (lower is better), `insertion_area` (higher is better): the deletion AUC and
      the insertion AUC, over the share of the text from 0 to 1, the empty text included;
    - `comprehensiveness` (higher is better), `sufficiency` (lower is better): how far the
      probability falls without the first tokens, or with these alone, mean over `EARLY_PERCENTS`.
    """
    early = [PERCENTS.index(percent) for percent in EARLY_PERCENTS]
    deletion_area, insertion_area = np.trapezoid(curves, np.array(PERCENTS) / 100)
    whole = curves[0, :, :1]
    comprehensiveness, sufficiency = (whole - curves[..., early]).mean(-1)
    return {
        "deletion_area": deletion_area,
        "insertion_area": insertion_area,
        "comprehensiveness": comprehensiveness,
        "sufficiency": sufficiency,
    }


def mean_with_interval(values: np.ndarray, seed: int) -> dict[str, float]:
    """Return the mean of one number per text, with its 95 % percentile bootstrap interval."""
    mean = float(values.mean())
    if len(values) == 1:  # scipy asks for two
        return {"mean": mean, "low": mean, "high": mean}
    resampled = bootstrap(
        (values,),
        np.mean,
        n_resamples=NUM_RESAMPLES,
        batch=100,  # bounds the memory
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    low, high = resampled.confidence_interval
    return {"mean": mean, "low": float(low), "high": float(high)}
