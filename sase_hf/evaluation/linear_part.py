"""The linear part of a trained classifier: a regression over words, and its share in the logits.

The regression learns from the training rows what each word and each pair of neighbouring words says
about a label. The logits of the model are then a D + b W: D those of the hops, W those of the
words, and a, b >= 0 the two numbers that make the labels of the validation rows most likely. These
rows also choose how strongly the regression is regularised.

Shapes: N training rows, B rows, n parts of a text (`LinearPart`), V words, F features, n V words
and then n `NUM_PAIRS` pairs, L labels or numbers.
"""

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from datasets import Dataset
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ..data.batching import batches_by_length, numbers_of_lists, token_counts
from ..models.answers import answers_of
from ..models.linear_self_attentive import NUM_PAIRS, LinearPart, pair_ids
from ..models.modeling_self_attentive import IGNORED_LABEL
from ..utils.errors import refusal

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]

# Of a pair beside a word: pairs are rarer, and there are more of them.
WEIGHT_OF_PAIRS = 0.7
# scikit-learn's C, the inverse of the regularisation. The first is right for most files. Many rows
# whose labels are hard to tell need a smaller one: with 2.0 the regression learns them by heart.
STRENGTHS = (2.0, 0.3, 0.05)
ROWS_PER_JUDGED = 10  # where no validation rows choose: every tenth training row does
# In nats: a smaller C that makes the validation labels more likely by less may do so by chance.
LEAST_GAIN = 1.0
MAX_STEPS = 200  # of a regression; more change no prediction
# How much the usual a and b weigh beside the validation rows: a few rows alone would choose any
# share, a thousand outvote them.
WEIGHT_OF_USUAL = 4.0
# How far the hops usually move logits, at most, where the words move them by 1. Hops that learned
# few long texts by heart move them further, also where they are wrong.
MOST_OF_HOPS = 0.25
ROUNDING = 1e-6  # of numbers in float32
LEAST_VARIANCE = 1e-6  # of errors, in deviations of the numbers
MAX_ENTRIES = 100_000_000  # features of all rows, times labels: a regression of some minutes
BATCH_TOKENS = 8_192


class Scales(NamedTuple):
    """How much the two parts of the logits count: a of the hops, b of the words."""

    hops: float
    words: float


class WordRegression(NamedTuple):
    """The weights of a regression, whose outputs are logits.

    For numbers the outputs are added to the `mean` of the training rows, in units of their
    `deviation`; for labels these are 0 and 1.
    """

    weights: Array  # of the words of each part, then of the pairs if there are any, (F, L)
    bias: Array  # (L,)
    mean: Array  # (L,)
    deviation: Array  # (L,)
    strength: float  # scikit-learn's C

    def outputs(self, rows: Dataset, model: Any) -> Tensor:
        """Return the outputs (B, L) for rows that are encoded for a model, float64."""
        return self.outputs_of(features_of(rows, model.linear_part))

    def outputs_of(self, counts: csr_array) -> Tensor:
        """Return the outputs (B, L) for rows with the `features_of` them, (B, F), float64."""
        return torch.from_numpy(counts @ self.weights + self.bias)

    def centred(self, values: Tensor) -> Tensor:
        """Return labels or logits (B, L) of the model as the outputs count them."""
        mean = torch.from_numpy(self.mean)
        return (values.double().reshape(-1, len(mean)) - mean) / torch.from_numpy(self.deviation)


class LearnedWords(NamedTuple):
    """What the regression learns from: the words of the training rows."""

    counts: csr_array  # `features_of` the rows, (N, F)
    labels: Array  # those of `Answers.labels`
    linear_part: LinearPart
    config: Any  # that of the model

    def regression(self, strength: float) -> WordRegression | None:
        """Return the regression; None if all rows have the same label, or no text has a word.

        `strength` is scikit-learn's C.
        """
        return regression_of(self.counts, self.labels, self.linear_part, self.config, strength)

    def regressions(self) -> Iterator[WordRegression]:
        """Yield the regression for each of the `STRENGTHS`; none where `regression` has none."""
        for strength in STRENGTHS:
            regression = self.regression(strength)
            if regression is None:
                return
            yield regression

    def rows_at(self, places: np.ndarray) -> "LearnedWords":
        """Return the words of some of the rows, those where `places` (N,) are true."""
        return self._replace(counts=self.counts[places], labels=self.labels[places])

    def usual_fit(self, regression: WordRegression) -> "Fit":
        """Return the fit of the words alone to these rows, if they count as they usually do.

        Errors of numbers are in deviations.
        """
        problem = _problem_of(self.config)
        labels = torch.from_numpy(self.labels)
        if not answers_of(self.config).has_labels:
            labels = regression.centred(labels)
        logits = problem.usual[1] * regression.outputs_of(self.counts)
        loss = problem.loss(logits, labels, self.config).item()
        return Fit(regression, Scales(*problem.usual), loss, unit=1.0)


class Fit(NamedTuple):
    """A regression, the scales that go with it, and how well both do on the validation rows."""

    regression: WordRegression
    scales: Scales
    loss: float  # the sum of the losses of the rows
    unit: float  # of the loss


def has_linear_part(model: Any) -> bool:
    """Return whether a model adds what the words themselves say to its logits."""
    return getattr(model, "linear_part", None) is not None


def fit_linear_part(model: Any, train: Dataset, validation: Dataset | None = None) -> Scales:
    """Fit the linear part of a trained classifier, and scale both parts. The model is changed.

    Each label has a logistic regression, of several labels per row one of its own, and numbers have
    a ridge regression. A linear part that the model has from before is replaced. Without validation
    rows both parts count as they usually do, and a tenth of the training rows chooses C.

    Args:
        model: A classifier of texts or pairs whose config has a `linear_part`.
        train: The rows that it was trained on, with `input_ids` and `labels`, and for pairs
            `token_type_ids`.
        validation: Rows that it was not trained on.

    Returns the scales: that of the hops, by which the last layer is multiplied, and that of the
    words, which is 0 where they add nothing.
    ValueError is raised for a model without a linear part, and for rows that are not encoded.
    """
    if not has_linear_part(model):
        raise refusal(
            f"this {type(model).__name__} has no linear part",
            "make it with SelfAttentiveConfig(linear_part='words_and_pairs')",
        )
    start = time.perf_counter()
    _check_rows("train", train, model)
    if validation is not None:
        _check_rows("validation", validation, model)
    train = thinned_out(train, model)
    words = words_of(train, model)
    clear(model.linear_part)
    if validation is None:
        fit = _fit_without_validation(words)
    else:
        of_hops = logits_of(model, validation)
        fit = best_of(fit_scales(of_hops, each, validation, model) for each in words.regressions())
    if fit is None:
        logger.info("linear part: none, because no word of the training rows tells labels apart")
        return Scales(1.0, 0.0)
    scales = fit.scales
    _write(model, fit.regression, scales)
    seconds = time.perf_counter() - start
    logger.info(
        f"linear part: logits of the hops times {scales.hops:.2f}, of the words times "
        f"{scales.words:.2f} (C = {fit.regression.strength:g}), {seconds:.1f} s"
    )
    return scales


def _check_rows(name: str, rows: Any, model: Any) -> None:
    """Raise ValueError unless rows are encoded for a model, with labels, and there are some."""
    if not isinstance(rows, Dataset):
        raise refusal(
            f"{name} is a {type(rows).__name__}", "it must be a datasets.Dataset of encoded rows"
        )
    needed = {"input_ids", "labels"}
    if model.reads_pairs:
        needed.add("token_type_ids")
    missing = sorted(needed - set(rows.column_names))
    if missing:
        raise refusal(
            f"{name} has the columns {', '.join(rows.column_names)}",
            f"it also needs {', '.join(missing)}",
        )
    if not rows.num_rows:
        raise refusal(f"{name} has no rows", "give some, or None for no validation rows")
    ids = _flat(rows, "input_ids")
    num_words = model.linear_part.num_words
    if len(ids) and not 0 <= ids.min() <= ids.max() < num_words:
        raise refusal(
            f"{name} has input_ids from {ids.min()} to {ids.max()}",
            f"those of the model are below {num_words}; encode the rows with its tokenizer",
        )


@torch.no_grad()
def clear(linear_part: LinearPart) -> None:
    """Let a linear part add nothing."""
    for weight in linear_part.parameters():
        weight.zero_()


def thinned_out(train: Dataset, model: Any) -> Dataset:
    """Return as many training rows as `MAX_ENTRIES` allows, evenly spaced; fewer are logged."""
    num_entries = 2 * sum(token_counts(train)) * len(answers_of(model.config).names)
    if num_entries <= MAX_ENTRIES:
        return train
    num_rows = max(train.num_rows * MAX_ENTRIES // num_entries, 1)
    logger.info(
        f"linear part: learns from {num_rows:,} of {train.num_rows:,} training rows, "
        "evenly spaced, as all would take long"
    )
    return train.select(np.linspace(0, train.num_rows - 1, num_rows).astype(int))


def words_of(rows: Dataset, model: Any) -> LearnedWords:
    """Return what the regression learns from encoded rows for a model with a linear part."""
    labels = answers_of(model.config).labels(torch.tensor(rows["labels"][:])).numpy()
    counts = features_of(rows, model.linear_part)
    return LearnedWords(counts, labels, model.linear_part, model.config)


def regression_of(
    counts: csr_array,
    labels: np.ndarray,
    linear_part: LinearPart,
    config: Any,
    strength: float,
) -> WordRegression | None:
    """Return the regression for N rows with the `features_of` them, (N, F).

    `labels` are those of `Answers.labels`, and `strength` is scikit-learn's C. None: all rows have
    the same label, or no text has a word.
    """
    answers = answers_of(config)
    num_labels = len(answers.names)
    mean = np.zeros(num_labels)
    deviation = np.ones(num_labels)
    if not answers.has_labels:
        mean = labels.mean(0, dtype=np.float64)
        deviation = labels.std(0, dtype=np.float64)
        # A number that never changes has nothing to be told by, and counts in its own unit.
        deviation[deviation <= ROUNDING * np.abs(mean)] = 1.0
        labels = (labels - mean) / deviation
    known = np.unique(counts.indices)  # the weight of a feature that no row has stays 0
    if not len(known):
        return None
    of_known = counts[:, known]
    units = _units(of_known, is_pair=known >= _num_words(linear_part))
    weighed = csr_array(of_known * units)
    found = _problem_of(config).regression(weighed, labels, config, strength)
    if found is None:
        return None
    coefficients, bias = found
    weights = np.zeros((counts.shape[1], num_labels))
    weights[known] = coefficients * units[:, np.newaxis]
    return WordRegression(weights, bias, mean, deviation, strength)


def _fit_without_validation(words: LearnedWords) -> Fit | None:
    """Return the regression with the usual scales; None where it learns nothing.

    Its C is the one that suits a tenth of the rows best, for a regression on the others. The words
    count there as they will in the model. The hops have learned all of these rows, so they have no
    say.
    """
    strength = STRENGTHS[0]
    num_rows = len(words.labels)
    if num_rows >= ROWS_PER_JUDGED:
        is_judged = np.arange(num_rows) % ROWS_PER_JUDGED == 0
        judged = words.rows_at(is_judged)
        others = words.rows_at(~is_judged)
        best = best_of(judged.usual_fit(regression) for regression in others.regressions())
        if best is not None:
            strength = best.regression.strength
    regression = words.regression(strength)
    return None if regression is None else words.usual_fit(regression)


def best_of(fits: Iterator[Fit]) -> Fit | None:
    """Return the first fit or, while each gains, a later one; None if there is none.

    No fit is made after one that does not gain.
    """
    best = next(fits, None)
    for fit in fits:
        assert best is not None  # there was a first one
        if best.loss - fit.loss < LEAST_GAIN * best.unit:
            break
        best = fit
    return best


def fit_scales(logits: Tensor, regression: WordRegression, rows: Dataset, model: Any) -> Fit:
    """Return the fit whose scales make the labels of B rows most likely.

    `logits` (B, L) are those of the hops. The sum of the losses has a term for the squared distance
    from the usual scales, and is convex.
    """
    from scipy.optimize import minimize  # here and below, because `import sase_hf` needs none

    config = model.config
    problem = _problem_of(config)
    of_hops = regression.centred(logits)
    of_words = regression.outputs(rows, model)
    labels = torch.tensor(rows["labels"][:])
    if not answers_of(config).has_labels:
        labels = regression.centred(labels)
    usual = torch.tensor(usual_scales(of_hops, of_words, problem.usual), dtype=torch.float64)
    scale_units = torch.tensor(problem.usual, dtype=torch.float64)
    unit = problem.unit(of_hops, of_words, labels)

    def loss_with(scales: Tensor) -> Tensor:
        return problem.loss(scales[0] * of_hops + scales[1] * of_words, labels, config)

    @torch.enable_grad()
    def loss_and_slope(values: Array) -> tuple[float, Array]:
        scales = torch.tensor(values, requires_grad=True)
        loss = loss_with(scales) / unit
        loss = loss + WEIGHT_OF_USUAL * ((scales - usual) / scale_units).square().sum()
        (slope,) = torch.autograd.grad(loss, scales)
        return loss.item(), slope.numpy()

    found = minimize(loss_and_slope, problem.usual, jac=True, bounds=[(0, None), (0, None)])
    loss = loss_with(torch.from_numpy(found.x)).item()
    return Fit(regression, Scales(*found.x.tolist()), loss, unit)


def usual_scales(of_hops: Tensor, of_words: Tensor, most: tuple[float, float]) -> Scales:
    """Return the scales where labels say nothing, given logits (B, L) of both parts.

    That of the hops is less than `most` says where they would outweigh the words.
    """
    moved_by_hops = _spread(of_hops)
    moved_by_words = most[1] * _spread(of_words)
    # The logits of equal rows differ by rounding alone, and say nothing about the parts.
    are_equal = moved_by_hops <= ROUNDING * of_hops.abs().max()
    if are_equal or moved_by_hops * most[0] <= MOST_OF_HOPS * moved_by_words:
        return Scales(*most)
    return Scales(MOST_OF_HOPS * moved_by_words / moved_by_hops, most[1])


def _spread(logits: Tensor) -> float:
    """Return how far logits (B, L) are from their mean over the rows, as a root mean square."""
    return (logits - logits.mean(0)).square().mean().sqrt().item()


# ---- the regression and the loss of each kind of answers -----------------------------------------


class _Labels:
    """What one label per row and several have in common."""

    usual = (0.3, 0.6)  # a and b where nothing says otherwise

    @staticmethod
    def unit(of_hops: Tensor, of_words: Tensor, labels: Tensor) -> float:
        """Return in what the loss is counted: nats."""
        return 1.0


class _OneLabel(_Labels):
    """One label per row."""

    @staticmethod
    def regression(
        features: csr_array, labels: Array, config: Any, strength: float
    ) -> tuple[Array, Array] | None:
        """Return coefficients (F, L) and bias (L,); None if all N `labels` are the same."""
        num_labels = len(answers_of(config).names)
        class_weights = np.ones(num_labels)
        if config.class_weights is not None:
            class_weights = np.array(config.class_weights, dtype=np.float64)
        counted = labels != IGNORED_LABEL
        counted[counted] = class_weights[labels[counted]] > 0
        present = np.unique(labels[counted])
        if len(present) < 2:
            return None
        weights = class_weights[labels[counted]]
        fitted = _logistic(features[counted], labels[counted], weights, strength)
        coefficients = np.zeros((features.shape[1], num_labels))
        # A label without a row is as unlikely as one row among all would make it.
        bias = np.full(num_labels, -np.log(len(labels) + 1.0))
        if len(present) == 2:  # of two labels scikit-learn returns the difference
            coefficients[:, present] = fitted.coef_.T * [-0.5, 0.5]
            bias[present] = fitted.intercept_ * [-0.5, 0.5]
        else:
            coefficients[:, present] = fitted.coef_.T
            bias[present] = fitted.intercept_
        return coefficients, bias

    @staticmethod
    def loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
        """Return the sum of the losses of B rows."""
        weights = config.class_weights
        return F.cross_entropy(
            logits,
            labels.double() if labels.is_floating_point() else labels.view(-1),
            weight=None if weights is None else logits.new_tensor(weights),
            ignore_index=IGNORED_LABEL,
            reduction="sum",
        )


class _SeveralLabels(_Labels):
    """Several labels per row, or none."""

    @staticmethod
    def regression(
        features: csr_array, labels: Array, config: Any, strength: float
    ) -> tuple[Array, Array] | None:
        """Return coefficients (F, L) and bias (L,); None if no label tells rows apart."""
        num_labels = labels.shape[1]
        coefficients = np.zeros((features.shape[1], num_labels))
        bias = np.zeros(num_labels)
        are_constant = True
        for number, column in enumerate(labels.T):
            counted = column != IGNORED_LABEL
            applies = column[counted] > 0
            num_applies = applies.sum()
            if 0 < num_applies < len(applies):
                fitted = _logistic(features[counted], applies, np.ones(len(applies)), strength)
                coefficients[:, number] = fitted.coef_[0]
                bias[number] = fitted.intercept_[0]
                are_constant = False
            else:
                bias[number] = np.log(num_applies + 1) - np.log(len(applies) - num_applies + 1)
        return None if are_constant else (coefficients, bias)

    @staticmethod
    def loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
        """Return the sum of the losses of the labels of B rows."""
        labels = labels.view_as(logits).double()
        losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return losses[labels != IGNORED_LABEL].sum()


class _Numbers:
    """Numbers, in units of their deviation."""

    usual = (0.4, 0.8)

    @staticmethod
    def regression(
        features: csr_array, labels: Array, config: Any, strength: float
    ) -> tuple[Array, Array] | None:
        """Return coefficients (F, L) and bias (L,); None if all N rows have the same numbers."""
        from sklearn.linear_model import Ridge

        if not labels.any():
            return None
        fitted = Ridge(alpha=1 / strength).fit(features, labels)
        return fitted.coef_.reshape(labels.shape[1], -1).T, np.ravel(fitted.intercept_)

    @staticmethod
    def unit(of_hops: Tensor, of_words: Tensor, labels: Tensor) -> float:
        """Return the variance of the errors of the better part, so that losses count in nats."""
        errors = [(part - labels).square().mean().item() for part in (of_hops, of_words)]
        return max(min(errors), LEAST_VARIANCE)

    @staticmethod
    def loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
        """Return half the sum of the squared errors of B rows."""
        return (logits - labels).square().sum() / 2


_PROBLEMS: dict[str, type[_OneLabel | _SeveralLabels | _Numbers]] = {
    "single_label_classification": _OneLabel,
    "multi_label_classification": _SeveralLabels,
    "regression": _Numbers,
}


def _problem_of(config: Any) -> type[_OneLabel | _SeveralLabels | _Numbers]:
    return _PROBLEMS[answers_of(config).kind]


def _logistic(features: csr_array, labels: Array, weights: Array, strength: float) -> Any:
    """Return a regression of scikit-learn for N rows with weights (N,)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    regression = LogisticRegression(C=strength, max_iter=MAX_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return regression.fit(features, labels, weights)


# ---- features, and the model ---------------------------------------------------------------------


def features_of(rows: Dataset, linear_part: LinearPart) -> csr_array:
    """Return how often each feature stands in B rows, over sqrt(T): (B, F)."""
    lengths = np.array(token_counts(rows), dtype=np.int64)
    columns = []
    row_numbers = []
    for part, (words, row_of_word) in enumerate(_parts(rows, lengths, linear_part.reads_pairs)):
        columns.append(words + part * linear_part.num_words)
        row_numbers.append(row_of_word)
        if linear_part.pair_weight is not None:
            are_neighbours = row_of_word[:-1] == row_of_word[1:]
            first = torch.from_numpy(words[:-1][are_neighbours])
            second = torch.from_numpy(words[1:][are_neighbours])
            start = _num_words(linear_part) + part * NUM_PAIRS
            columns.append(pair_ids(first, second).numpy() + start)
            row_numbers.append(row_of_word[:-1][are_neighbours])
    num_features = sum(weight.shape[0] * weight.shape[1] for weight in linear_part.parameters())
    places = np.concatenate(row_numbers)
    values = 1 / np.sqrt(lengths[places])
    shape = (len(lengths), num_features)
    return csr_array((values, (places, np.concatenate(columns))), shape=shape)


def _num_words(linear_part: LinearPart) -> int:
    """Return n V, how many features are words."""
    return linear_part.num_parts * linear_part.num_words


def _parts(
    rows: Dataset, lengths: np.ndarray, reads_pairs: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the words of each part of all texts, one after the other, and the row of each word."""
    words = _flat(rows, "input_ids")
    row_of_word = np.repeat(np.arange(len(lengths)), lengths)
    if not reads_pairs:
        yield words, row_of_word
        return
    is_second = _flat(rows, "token_type_ids") == 1
    # A word of a row as one number, so that those of both texts can be compared at once.
    words_of_rows = row_of_word * (words.max(initial=0) + 1) + words
    in_first = np.isin(words_of_rows, words_of_rows[~is_second])
    in_second = np.isin(words_of_rows, words_of_rows[is_second])
    for in_part in (is_second & ~in_first, is_second & in_first, ~is_second & ~in_second):
        yield words[in_part], row_of_word[in_part]


def _flat(rows: Dataset, column: str) -> np.ndarray:
    """Return the numbers of all lists of a column, one list behind the other."""
    numbers = [chunk.astype(np.int64) for chunk in numbers_of_lists(rows, column)]
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _units(counts: csr_array, is_pair: np.ndarray) -> Array:
    """Return by what the regression multiplies the counts of each of F features of N rows: (F,).

    The inverse document frequency, less for pairs, over how often the feature stands in a row that
    has it: without the latter "the", thirty times in a review, outweighs what is said once.
    `is_pair` says which features are pairs (F,), and each stands in some row.
    """
    num_rows, num_features = counts.shape
    num_with = np.bincount(counts.indices, minlength=num_features)
    rarity = np.log((1 + num_rows) / (1 + num_with)) + 1
    rarity[is_pair] *= WEIGHT_OF_PAIRS
    # The least entry of a row is that of features which stand there once.
    row_of_entry = np.repeat(np.arange(num_rows), np.diff(counts.indptr))
    of_one = np.full(num_rows, np.inf)
    np.minimum.at(of_one, row_of_entry, counts.data)
    times = counts.data / of_one[row_of_entry]
    usual_count = np.bincount(counts.indices, times, num_features) / num_with
    return rarity / usual_count


@torch.no_grad()
def logits_of(model: Any, rows: Dataset) -> Tensor:
    """Return the logits (B, L) of a model for encoded rows, on the CPU."""
    was_training = model.training
    model.eval()
    lengths = token_counts(rows)
    logits = torch.zeros(len(lengths), model.config.num_labels)
    names = ["input_ids", "token_type_ids"] if model.reads_pairs else ["input_ids"]
    for numbers in batches_by_length(lengths, BATCH_TOKENS):
        batch = padded_batch(rows.select(numbers), names)
        outputs = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
        logits[numbers] = outputs.logits.float().cpu()
    model.train(was_training)
    return logits


def padded_batch(rows: Dataset, names: Sequence[str]) -> dict[str, Tensor]:
    """Return `input_ids` and columns as long, with zeros behind the lists, and the mask: (B, T)."""
    batch = {name: _padded(rows[name][:]) for name in names}
    length = batch["input_ids"].shape[1]
    num_tokens = torch.tensor(token_counts(rows))
    batch["attention_mask"] = torch.arange(length) < num_tokens.unsqueeze(1)
    return batch


def _padded(lists: list[list[int]]) -> Tensor:
    """Return lists of numbers as rows with zeros behind them."""
    rows = [torch.tensor(numbers, dtype=torch.long) for numbers in lists]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


@torch.no_grad()
def _write(model: Any, regression: WordRegression, scales: Scales) -> None:
    """Put the scaled parts into a model."""
    layer = model.classifier.output
    num_labels = len(regression.bias)
    # The layer multiplies by a deviation and adds a mean, which need not be those of the labels.
    # Around the latter the hops are scaled, so the bias makes up for the difference.
    own_mean = np.array(layer.mean or [0.0] * num_labels)
    own_deviation = np.array(layer.deviation or [1.0] * num_labels)
    of_words = scales.words * regression.deviation
    shift = (1 - scales.hops) * (regression.mean - own_mean) + of_words * regression.bias
    layer.weight.mul_(scales.hops)
    layer.bias.mul_(scales.hops)
    layer.bias.add_(torch.from_numpy(shift / own_deviation).to(layer.bias))
    fill(model.linear_part, regression.weights * of_words)


@torch.no_grad()
def fill(linear_part: LinearPart, feature_weights: Array) -> None:
    """Put weights (F, L) into a linear part."""
    weights = torch.from_numpy(feature_weights)
    start = 0
    for table in linear_part.parameters():  # of the words, then of the pairs
        end = start + table.shape[0] * table.shape[1]
        table.copy_(weights[start:end].view_as(table))
        start = end
