"""The linear part of a trained classifier: a regression over words, and its share in the logits.

The regression learns from the training rows what each word and each pair of neighbouring words says
about a label. The logits of the model are then a D + b W: D those of the hops, W those of the
words, and a, b >= 0 the two numbers that make the labels of the validation rows most likely. These
rows also choose how strongly the regression is regularised, and once the model is measured on them,
the regression may learn them, too (`learn_anew`). Regression and scales lower the loss in
which the model was trained, so that all kinds of labels are learned in one way.

Shapes: N training rows, B rows, n parts of a text (`LinearPart`), V words, F features, n V words
and then n `NUM_PAIRS` pairs, L labels or numbers.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..data.batching import token_counts
from ..models.answers import answers_of
from ..models.linear_self_attentive import LinearPart
from ..models.modeling_self_attentive import penalised_loss
from ..utils.errors import refusal

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]

# Of a pair beside a word: pairs are rarer, and there are more of them.
WEIGHT_OF_PAIRS = 0.7
# scikit-learn's C, the inverse of the regularisation. The first is right for most files. Many rows
# whose labels are hard to tell need a smaller one: with 2.0 the regression learns them by heart.
STRENGTHS = (2.0, 0.3, 0.05)
# In nats: a smaller C that makes the validation labels more likely by less may do so by chance.
LEAST_GAIN = 1.0
# Of a fit; more change no prediction.
STEPS = {"maxiter": 200, "gtol": 1e-4}
# How much the usual scales weigh beside the validation rows: a few rows alone would choose any
# share, a thousand outvote them.
WEIGHT_OF_USUAL = 4.0
# How far the hops usually move logits, at most, where the words move them by 1. Hops that learned
# few long texts by heart move them further, also where they are wrong.
MOST_OF_HOPS = 0.25
LEAST_VARIANCE = 1e-6  # of the errors of numbers, in units of their deviation
# Of a regression over mean states, whose features have the variance 1 together. With few rows the
# states of a pretrained encoder say more than the words.
STRENGTHS_OF_STATES = (6.0, 2.0, 0.6)
USUAL_OF_STATES = (1.0, 0.3)  # the scale of the states, and that of the words beside them
WIDTHS_OF_STATES = (1.0, 0.6)
FOLDS = 5
LEAST_DEVIATION = 1e-6
MOST_JUDGED = 2_000  # rows that choose the scales out of their folds
BATCH = 32  # rows that the model reads at once
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Scales(NamedTuple):
    """How much the two parts of the logits count: a of the hops, b of the words."""

    hops: float
    words: float


USUAL = Scales(0.3, 0.6)  # where nothing says otherwise
# The words of a regression over words and states are scaled once more, within it.
USUAL_WITH_STATES = Scales(0.3, 1.0)


class WordRegression(NamedTuple):
    """The weights of a regression, whose outputs are those that the last layer should have."""

    weights: Array  # of the words of each part, then of the pairs if there are any, (F, L)
    bias: Array  # (L,)
    strength: float  # scikit-learn's C
    weights_of_states: Array | float = 0.0  # (K, L)


class Fit(NamedTuple):
    """A regression, the scales that go with it, and the loss of the validation rows in nats."""

    regression: WordRegression
    scales: Scales
    loss: float = 0.0  # the sum over the labels


class WordRows:
    """Encoded rows as the regression reads them, and the loss of the model on them."""

    def __init__(self, rows: Dataset, model: Any) -> None:
        self.features = features_of(rows, model)  # (B, F)
        self.states: Array | None = None  # what is read of the mean states, (B, K)
        if model.reads_mean_state and model.config.freeze_embeddings:
            self.states = mean_states_of(model, rows)
        self.roots = np.sqrt(token_counts(rows))  # (B,)
        self.num_words = len(model.linear_part.word_weight.flatten(0, 1))  # n V
        self.num_outputs = model.config.num_labels  # L
        self.config = model.config
        self.labels = torch.tensor(rows["labels"][:])
        answers = answers_of(model.config)
        if not answers.has_labels:
            self.labels = before_units(self.labels, model.config)
            self.config = copy(model.config)
            self.config.target_mean = self.config.target_deviation = None
        self.num_labels = len(rows) if answers.has_one_label else self.labels.numel()
        self.has_labels = answers.has_labels
        # scikit-learn has one weight of two labels, the difference, whose square is twice as much,
        # and a ridge without the half of the squares.
        is_of_two = answers.has_one_label and self.num_outputs == 2
        self.cost_of_square = 2 if is_of_two or not answers.has_labels else 1

    def take(self, places: Array) -> "WordRows":
        """Return the rows at these places."""
        taken = copy(self)
        taken.features = self.features[places]
        taken.roots = self.roots[places]
        taken.labels = self.labels[torch.from_numpy(places)]
        if self.states is not None:
            taken.states = self.states[places]
        taken.num_labels = len(places) * self.num_labels // len(self.roots)
        return taken

    def outputs(self, regression: "WordRegression") -> Array:
        """Return what a regression has for the rows, (B, L)."""
        outputs: Array = self.features @ regression.weights + regression.bias
        if self.states is None:
            return outputs
        return outputs + self.states @ regression.weights_of_states

    def unit_of_loss(self, *parts: Array) -> float:
        """Return the loss of a row that is one nat: for numbers by the errors of the better part.

        The parts are outputs (B, L).
        """
        if self.has_labels:
            return 1.0
        errors = [np.square(part - self.labels.numpy()).mean() for part in parts]
        return 2 * max(float(min(errors)), LEAST_VARIANCE)

    def loss(self, outputs: Array) -> tuple[float, Array]:
        """Return the mean loss of the labels with outputs (B, L) of the last layer, and its slope.

        The slope is (B, L).
        """
        asked = torch.from_numpy(outputs).requires_grad_()
        with torch.enable_grad():
            loss = penalised_loss(asked, self.labels, torch.zeros(len(asked)), self.config)
        (slope,) = torch.autograd.grad(loss, asked)
        return loss.item(), slope.numpy()


def has_linear_part(model: Any) -> bool:
    """Return whether a model adds what the words themselves say to its logits."""
    return getattr(model, "linear_part", None) is not None


def fit_linear_part(model: Any, train: Dataset, validation: Dataset | None = None) -> Fit:
    """Fit the linear part of a trained classifier, and scale both parts. The model is changed.

    A linear part that the model has from before is replaced. Numbers are scaled around the
    `target_mean` of the config. Without validation rows both parts count as they usually do.

    Args:
        model: A classifier of texts or pairs whose config has a `linear_part`.
        train: The rows that it was trained on, with `input_ids` and `labels`, and for pairs
            `token_type_ids`.
        validation: Rows that it was not trained on.

    Returns what was fitted. Its scales are that of the hops, by which the last layer is multiplied,
    and that of the words, which is 0 where they add nothing.
    ValueError is raised for a model without a linear part, and for ids that it does not know.
    """
    if not has_linear_part(model):
        raise refusal(
            f"this {type(model).__name__} has no linear part",
            "make it with SelfAttentiveConfig(linear_part='words_and_pairs')",
        )
    start = time.perf_counter()
    learned = WordRows(train, model)
    clear(model.linear_part)
    if validation is None:
        fit = Fit(regression_of(learned, STRENGTHS[0]), USUAL)
    else:
        of_hops = before_units(logits_of(model, validation), model.config).numpy()
        fit = best_fit(learned, WordRows(validation, model), of_hops)
    with torch.no_grad():
        for parameter in model.classifier.output.parameters():
            parameter.mul_(fit.scales.hops)
    write(model, fit.regression, fit.scales.words, fit.regression.bias)
    seconds = time.perf_counter() - start
    logger.info(
        f"linear part: logits of the hops times {fit.scales.hops:.2f}, of the words times "
        f"{fit.scales.words:.2f} (C = {fit.regression.strength:g}), {seconds:.1f} s"
    )
    return fit


def learn_anew(model: Any, fit: Fit, rows: Dataset) -> None:
    """Let the linear part of a model learn other rows, with the scales and the strength of a fit.

    These are more rows than those of the `fit`, such as the validation rows beside the others: a
    regression gains from each, and what was chosen stays right.
    """
    regression = regression_of(WordRows(rows, model), fit.regression.strength)
    write(model, regression, fit.scales.words, regression.bias - fit.regression.bias)


@torch.no_grad()
def clear(linear_part: LinearPart) -> None:
    """Let a linear part add nothing."""
    for weight in linear_part.parameters():
        weight.zero_()


def best_fit(learned: WordRows, validation: WordRows, of_hops: Array) -> Fit:
    """Return the first of the `STRENGTHS` or, while each makes the labels likelier, a later one.

    `of_hops` are what the last layer has for the validation rows, (B, L).
    """
    strengths = STRENGTHS if learned.states is None else STRENGTHS[:1]
    regressions = (regression_of(learned, strength) for strength in strengths)
    fits = (fit_scales(regression, validation, of_hops) for regression in regressions)
    best = next(fits)
    for fit in fits:
        if best.loss - fit.loss < LEAST_GAIN:
            break
        best = fit
    return best


def regression_of(rows: WordRows, strength: float) -> WordRegression:
    """Return the regression that N rows teach, with scikit-learn's C as its `strength`.

    With mean states it is the sum of two, one over words and one over states. How much each counts
    is chosen by rows that have not taught it.
    """
    of_words = partial(_regression_over_words, strength=strength)
    if rows.states is None:
        return of_words(rows)
    folds = [*folds_of(rows)]
    judged = rows.take(np.concatenate([fold for _, fold in folds]))
    words_said = out_of_fold(rows, folds, of_words)
    fits = []
    for strength_of_states in STRENGTHS_OF_STATES:
        of_states = partial(_regression_over_states, strength=strength_of_states)
        parts = [out_of_fold(rows, folds, of_states), words_said]
        scales, loss = mixed(judged, parts, USUAL_OF_STATES, WIDTHS_OF_STATES)
        fits.append((loss, scales, of_states))
    _, (of_states_count, of_words_count), of_states = min(fits, key=itemgetter(0))
    words = of_words(rows)
    states = of_states(rows)
    return WordRegression(
        of_words_count * words.weights,
        of_words_count * words.bias + of_states_count * states.bias,
        strength,
        of_states_count * states.weights_of_states,
    )


def folds_of(rows: WordRows) -> Iterator[tuple[Array, Array]]:
    """Yield the places of the rows that teach, and of those that then judge.

    A row whose label no other row teaches judges nothing. Of many rows some folds are enough.
    """
    places = np.random.default_rng(0).permutation(len(rows.roots))
    num_folds = min(max(FOLDS * MOST_JUDGED // len(places), 1), FOLDS)
    for judged in np.array_split(places, FOLDS)[:num_folds]:
        taught = np.setdiff1d(places, judged)
        if rows.labels.ndim == 1:  # one label
            judged = judged[np.isin(rows.labels[judged], rows.labels[taught])]
        yield taught, judged


def out_of_fold(
    rows: WordRows,
    folds: Sequence[tuple[Array, Array]],
    teach: Callable[[WordRows], WordRegression],
) -> Array:
    """Return the outputs (B, L) of regressions for the rows that judge them, fold by fold."""
    return np.concatenate(
        [rows.take(judged).outputs(teach(rows.take(taught))) for taught, judged in folds]
    )


def _regression_over_words(rows: WordRows, strength: float) -> WordRegression:
    known = np.unique(rows.features.indices)  # the weight of a feature that no row has stays 0
    of_known = rows.features[:, known]
    # The inverse document frequency, less for pairs, over how often the feature stands in a row
    # that has it: without the latter "the", thirty times in a review, outweighs what is said once.
    num_with = np.bincount(of_known.indices, minlength=len(known))
    factors = np.log((1 + len(rows.roots)) / (1 + num_with)) + 1
    factors[known >= rows.num_words] *= WEIGHT_OF_PAIRS
    factors *= num_with / (rows.roots @ of_known)
    found, bias = _taught(rows, of_known * factors, strength)
    weights = np.zeros((rows.features.shape[1], rows.num_outputs))
    weights[known] = found * factors[:, np.newaxis]
    return WordRegression(weights, bias, strength)


def _regression_over_states(rows: WordRows, strength: float) -> WordRegression:
    assert rows.states is not None
    mean = rows.states.mean(0)
    # All features together have the variance 1.
    deviations = np.maximum(rows.states.std(0), LEAST_DEVIATION) * np.sqrt(len(mean))
    found, bias = _taught(rows, (rows.states - mean) / deviations, strength)
    weights = found / deviations[:, np.newaxis]
    no_words = np.zeros((rows.features.shape[1], rows.num_outputs))
    return WordRegression(no_words, bias - mean @ weights, strength, weights)


def _taught(rows: WordRows, features: Any, strength: float) -> tuple[Array, Array]:
    """Return the weights (F, L) and the bias (L,) of the regression over features (N, F)."""
    num_features = features.shape[1]
    matrix = hstack([features, np.ones((len(rows.roots), 1))], format="csr")
    costs = np.full((num_features + 1, 1), rows.cost_of_square / strength)
    costs[-1] = 0
    found = likeliest(rows, matrix, np.zeros((num_features + 1, rows.num_outputs)), costs)
    return found[:-1], found[-1]


def fit_scales(regression: WordRegression, rows: WordRows, of_hops: Array) -> Fit:
    """Return the fit whose scales make the labels of B rows likeliest, near the usual ones."""
    of_words = rows.outputs(regression)
    usual = USUAL if rows.states is None else USUAL_WITH_STATES
    start = usual_scales(of_hops, of_words, usual)
    scales, loss = mixed(rows, [of_hops, of_words], start, usual)
    return Fit(regression, Scales(*scales), loss)


def mixed(
    rows: WordRows,
    parts: Sequence[Array],
    usual: Sequence[float],
    usual_distances: Sequence[float],
) -> tuple[list[float], float]:
    """Return the scales of parts (B, L) that make the labels of B rows likeliest, and their loss.

    They are near the usual ones: a usual distance costs `WEIGHT_OF_USUAL` nats, as the loss is in.
    """
    unit = rows.unit_of_loss(*parts)
    matrix = np.stack([part.ravel() for part in parts], axis=1)
    costs = unit * 2 * WEIGHT_OF_USUAL / np.reshape(usual_distances, (-1, 1)) ** 2
    bounds = [(0, None)] * len(parts)
    found = likeliest(rows, matrix, np.reshape(usual, (-1, 1)), costs, bounds)
    loss, _ = rows.loss((matrix @ found).reshape(parts[0].shape))
    return found.ravel().tolist(), loss * rows.num_labels / unit


def likeliest(rows: WordRows, matrix: Any, usual: Array, costs: Array, bounds: Any = None) -> Array:
    """Return the coefficients of the columns of a matrix that make the labels of B rows likeliest.

    They are as `usual`, from which half a squared distance has the cost of `costs`. The product of
    matrix and coefficients is the outputs of the rows, (B, L) or row by row.
    """
    from scipy.optimize import minimize  # here, because `import sase_hf` needs none

    costs = costs / rows.num_labels

    def loss_and_slope(values: Array) -> tuple[float, Array]:
        coefficients = values.reshape(usual.shape)
        distances = coefficients - usual
        product = matrix @ coefficients
        loss, slope = rows.loss(product.reshape(-1, rows.num_outputs))
        loss += (costs * np.square(distances)).sum() / 2
        of_columns = matrix.T @ slope.reshape(product.shape) + costs * distances
        return loss, of_columns.ravel()

    found = minimize(
        loss_and_slope, usual.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=STEPS
    )
    coefficients: Array = found.x.reshape(usual.shape)
    return coefficients


def usual_scales(of_hops: Array, of_words: Array, usual: Scales = USUAL) -> Scales:
    """Return the scales where labels say nothing, given logits (B, L) of both parts.

    That of the hops is less than the usual one where they would outweigh the words.
    """
    # How far logits are from their mean over the rows, as a root mean square.
    moved_by_hops, moved_by_words = (np.sqrt(part.var(0).mean()) for part in (of_hops, of_words))
    most = MOST_OF_HOPS * usual.words * moved_by_words
    if usual.hops * moved_by_hops <= most:
        return usual
    return Scales(float(most / moved_by_hops), usual.words)


# ---- features, and the model ---------------------------------------------------------------------


def features_of(rows: Dataset, model: Any) -> csr_array:
    """Return how often each feature stands in B rows, over sqrt(T): (B, F).

    ValueError: a row has ids that the model does not know.
    """
    words = model.linear_part
    num_words = len(words.word_weight.flatten(0, 1))
    num_pairs = 0 if words.pair_weight is None else len(words.pair_weight.flatten(0, 1))
    blocks = []
    for batch in _padded(rows, model):
        texts = words.aligned(*(batch.get(name) for name in INPUTS))
        block = [_counts(texts.of_words, texts.rows.real, texts.scale, num_words)]
        if num_pairs:
            real = texts.rows.real[:, 1:]
            block.append(_counts(texts.of_pairs, real, texts.scale, num_pairs))
        blocks.append(hstack(block))
    return vstack(blocks, format="csr")


def _counts(ids: Tensor, real: Tensor, scale: Tensor, num_ids: int) -> csr_array:
    """Return how often each id is among the real ones of B rows, times their scales (B, 1).

    The ids are (B n, S).
    """
    num_rows = len(scale)
    part = real.nonzero()[:, 0].cpu()
    row = part // (len(ids) // max(num_rows, 1))
    values = scale.cpu().double()[row, 0]
    columns = ids[real].cpu()
    return csr_array((values.numpy(), (row.numpy(), columns.numpy())), shape=(num_rows, num_ids))


def _padded(rows: Dataset, model: Any) -> Iterator[dict[str, Tensor]]:
    """Yield encoded rows as batches that a model reads, padded on the right."""
    names = ["input_ids", "token_type_ids"] if model.reads_pairs else ["input_ids"]
    for batch in rows.select_columns(names).with_format("torch").iter(BATCH):
        batch["attention_mask"] = [torch.ones_like(ids) for ids in batch["input_ids"]]
        padded = {name: pad_sequence([*batch[name]], batch_first=True) for name in batch}
        yield {name: tensor.to(model.device) for name, tensor in padded.items()}


def logits_of(model: Any, rows: Dataset) -> Tensor:
    """Return the logits (B, L) of a model for encoded rows, on the CPU."""
    return _read(model, rows, lambda batch: model(**batch).logits)


def mean_states_of(model: Any, rows: Dataset) -> Array:
    """Return what the linear part reads of the mean states of encoded rows, (B, K)."""

    def features(batch: dict[str, Tensor]) -> Tensor:
        inputs = [batch.get(name) for name in INPUTS]
        states = model.read(*inputs, None).last_hidden_state
        found: Tensor = model.linear_part.features(model.linear_part.means(*inputs, states=states))
        return found

    return _read(model, rows, features).double().numpy()


@torch.no_grad()
def _read(model: Any, rows: Dataset, of_batch: Callable[[dict[str, Tensor]], Tensor]) -> Tensor:
    """Return what a model in evaluation mode has for encoded rows (B, ...), on the CPU."""
    was_training = model.training
    model.eval()
    found = [of_batch(batch).float().cpu() for batch in _padded(rows, model)]
    model.train(was_training)
    return torch.cat(found)


def chosen_by_hops(model: Any, rows: Dataset) -> NDArray[np.intp]:
    """Return the labels that a model of one label would choose without a linear part, (B,)."""
    words = model.linear_part
    model.linear_part = None
    try:
        return logits_of(model, rows).argmax(1).numpy()
    finally:
        model.linear_part = words


def before_units(values: Tensor, config: Any) -> Tensor:
    """Return the outputs (B, L) of the last layer before it restores the units of numbers."""
    zero = torch.zeros(config.num_labels, dtype=torch.float64)
    mean = zero + torch.tensor(config.target_mean or 0.0)
    deviation = zero + torch.tensor(config.target_deviation or 1.0)
    return (values.reshape(-1, config.num_labels) - mean) / deviation


@torch.no_grad()
def write(model: Any, regression: WordRegression, scale: float, bias: Array) -> None:
    """Put a scaled regression into a model, whose last layer lacks the `bias` (L,) of it."""
    layer = model.classifier.output
    layer.bias.add_(torch.from_numpy(scale * bias).to(layer.bias))
    deviation = torch.tensor(layer.deviation or 1.0)
    weights = torch.from_numpy(scale * regression.weights) * deviation
    words = model.linear_part
    num_words = len(words.word_weight.flatten(0, 1))
    words.word_weight.copy_(weights[:num_words].view_as(words.word_weight))
    if words.pair_weight is not None:
        words.pair_weight.copy_(weights[num_words:].view_as(words.pair_weight))
    if words.state_weight is not None:
        words.state_weight.copy_(torch.as_tensor(scale * regression.weights_of_states) * deviation)
