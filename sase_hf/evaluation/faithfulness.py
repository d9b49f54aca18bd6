"""What explains a prediction? Deletion and insertion curves, measured on the model itself.

Deletion removes the tokens with the highest scores step by step and follows the probability of the
class that the model predicts for the whole text. Insertion starts from an empty text and puts these
tokens back first. If the prediction depends on them, the deletion curve falls faster, and the
insertion curve rises faster, than in random order. The scores are those of the attention, of the
contributions (`sase_hf.models.contributions_self_attentive`), and their competitors: gradient times
input, the probability lost by leaving a token out, and Integrated Gradients (Sundararajan et al.,
2017) of the probability. The attention mask removes a token: the model reads the rest exactly as a
text without the token.

An attribution is one score per token; tokens are removed and inserted from the highest score down.
Shapes: B texts, T tokens, r hops, K attributions, S steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..data.labels import SINGLE_LABEL
from ..models.contributions_self_attentive import explain
from .dataset import Batch, EvaluationDataset

# Share of the tokens that is removed or inserted, rounded up to whole tokens.
PERCENTS = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
# Steps of ERASER (DeYoung et al., 2020), but for 1 %, in most texts the same token as 5 %.
EARLY_PERCENTS = (5, 10, 20, 50)
DIRECTIONS = ("deletion", "insertion")
MEASURES = ("deletion_area", "insertion_area", "comprehensiveness", "sufficiency")

NUM_RESAMPLES = 10_000
MAX_GRADIENT_BATCH = 256  # texts times steps of the integral in one batch; bounds the memory


def measure_faithfulness(
    dataset: EvaluationDataset,
    *,
    integrated_gradients_steps: int = 16,
    random_orders: int = 3,
    batch_size: int = 32,
    seed: int = 42,
) -> dict[str, Any]:
    """Compare attention and contributions, as attributions, with their competitors.

    Integrated Gradients are positive where a token supports the class; attention has no sign. So
    they are two attributions: with their sign, and without as `integrated_gradients_unsigned`. The
    tokens of both sentences of a pair are in one order; attention sums to the same in each, so the
    tokens of the shorter one tend to come first.

    0 `integrated_gradients_steps` leave Integrated Gradients out. The curves of the `random_orders`
    of a text are averaged. The seed draws these orders and the resamples.

    Returns:
        `metrics`: the `measures`, means over the texts, named `<attribution>_<measure>`.
        `differences`: attention minus each other attribution, `mean` with `low` and `high`, its
        95 % confidence interval by the bootstrap over texts. `curves`: mean probabilities at
        `percents`. With Integrated Gradients `convergence_error`: the mean distance of their sum
        from the change of the probability.

    Raises:
        ValueError: If the model is no single-label classifier, or a score is not finite.
        ImportError: If Captum is needed and missing.
    """
    model, steps = dataset.model, integrated_gradients_steps
    # transformers leaves the problem type of a single-label model open.
    if (problem_type := model.config.problem_type or SINGLE_LABEL) != SINGLE_LABEL:
        raise ValueError(f"problem_type is {problem_type!r}; it must be {SINGLE_LABEL!r}")
    if steps < 0:
        raise ValueError(f"--integrated_gradients_steps is {steps}; it must be 0 or more")
    if random_orders < 1:
        raise ValueError(f"--random_orders is {random_orders}; it must be 1 or more")
    curves: dict[str, np.ndarray] = {}
    errors: list[float] = []
    shape = (len(DIRECTIONS), dataset.rows.num_rows, len(PERCENTS))
    for numbers, batch in dataset.batches(batch_size, "Removing tokens"):
        classes, scores = attributions(model, batch)
        if steps:
            gradients, error = integrated_gradients(model, batch, classes, steps)
            scores |= {"integrated_gradients": gradients}
            scores |= {"integrated_gradients_unsigned": gradients.abs()}
            errors += error.abs().tolist()
        drawn = random_scores(scores["attention"], numbers, random_orders, seed)
        every = [*scores.values(), *drawn]
        found = probability_curves(model, batch, classes, every).cpu().numpy()
        own = dict(zip(scores, found, strict=False)) | {"random": found[len(scores) :].mean(0)}
        for name, part in own.items():
            curves.setdefault(name, np.zeros(shape))[:, numbers] = part
    summary = summarise(curves, seed)
    return summary | ({"convergence_error": float(np.mean(errors))} if errors else {})


def attributions(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the predicted class of each text (B,), and scores on its tokens (B, T) by name.

    Attention and contributions are summed over the hops, for a pair over both sentences.
    """
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    classes = outputs.logits.argmax(-1)
    why = explain(model, **batch, labels=classes)
    embeds = model.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    others = {name: part for name, part in batch.items() if name != "input_ids"}
    with torch.backends.cudnn.flags(enabled=False):
        shares = model(inputs_embeds=embeds, **others).logits.softmax(-1)
        [slope] = torch.autograd.grad(shares.gather(1, classes.unsqueeze(1)).sum(), embeds)
    return classes, {
        "attention": outputs.attentions[0].flatten(1, -2).sum(1),
        "contributions": why.contributions.flatten(1, -2).sum(1),
        "word_contributions": why.words,
        "gradient_times_input": (slope * embeds).sum(-1).detach(),
        "leaving_out": leaving_out(model, batch, classes),
    }


@torch.no_grad()
def leaving_out(model: PreTrainedModel, batch: Batch, classes: Tensor) -> Tensor:
    """Return how far the probability of the class falls without each token, shape (B, T)."""
    real = batch["attention_mask"] != 0

    def probabilities(left: Tensor) -> Tensor:
        logits = model(**{**batch, "attention_mask": left.long()}).logits
        return logits.softmax(-1).gather(1, classes.unsqueeze(1))[:, 0]

    fallen = torch.zeros(real.shape, device=real.device)
    whole = probabilities(real)
    for place in range(real.shape[1]):
        left = real.clone()
        left[:, place] = False
        fallen[:, place] = whole - probabilities(left)
    return fallen


def random_scores(like: Tensor, numbers: Sequence[int], count: int, seed: int) -> list[Tensor]:
    """Draw `count` attributions of shape (B, T), each text by its number and the seed."""
    generators = [np.random.default_rng((seed, number)) for number in numbers]
    # Token by token, so that padding does not change the scores of the real tokens.
    drawn = np.stack([generator.random((like.shape[1], count)) for generator in generators])
    return list(torch.as_tensor(drawn, device=like.device).unbind(-1))


def integrated_gradients(
    model: PreTrainedModel, batch: Batch, classes: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Attribute the probability of a class (B,) to tokens, from a baseline of zero word vectors.

    `steps` are the points of the Gauss-Legendre rule. Returns scores (B, T), positive where a token
    supports the class, and their sum minus the change of the probability (B,).
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as reason:
        raise ImportError(
            "Integrated Gradients need captum: pip install 'sase_hf[captum]', or give "
            "--integrated_gradients_steps 0"
        ) from reason
    others = {name: part for name, part in batch.items() if name != "input_ids"}

    def probabilities(embeds: Tensor, *parts: Tensor) -> Tensor:
        named = dict(zip(others, parts, strict=True))
        return model(inputs_embeds=embeds, **named).logits.softmax(-1)

    embeds = model.get_input_embeddings()(batch["input_ids"]).detach()
    if embeds.shape[1] == 0:
        return embeds.sum(-1), embeds.sum((1, 2))
    # The gradient of cuDNN's LSTM exists in training mode only.
    with torch.backends.cudnn.flags(enabled=False):
        scores, errors = IntegratedGradients(probabilities).attribute(
            embeds,
            baselines=torch.zeros_like(embeds),
            target=classes,
            additional_forward_args=tuple(others.values()),
            n_steps=steps,
            internal_batch_size=max(MAX_GRADIENT_BATCH, len(embeds)),
            return_convergence_delta=True,
        )
    return scores.sum(-1), errors


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
        chosen = classes.repeat(rows).unsqueeze(1)
        return model(**masked).logits.softmax(-1).gather(1, chosen).double()

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
    bad = (~scores.isfinite() & real).any(1)
    if bad.any():
        text = int(bad.long().argmax())
        raise ValueError(f"the scores of text {text} of the batch are not finite")
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
    means = [rng.choice(values, len(values)).mean() for _ in range(NUM_RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


__all__ = ["DIRECTIONS", "MEASURES", "PERCENTS", "measure_faithfulness"]
