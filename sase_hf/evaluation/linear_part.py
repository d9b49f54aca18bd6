"""The linear part of a trained classifier: a regression over words, and its share in the logits.

The regression learns from the training rows what each word and each pair of neighbouring words says
about a label. Words with characters in common share a part of their weights, which helps those that
few rows have. The logits of the model are then a D + b W + c B: D those of the hops, W those of the
words, B its bias, and a, b, c >= 0 the numbers that make the labels of the validation rows most
likely. D and B both know which labels are rare, and with b in place of c would say so twice. These
rows also choose how strongly the regression is regularised, and once the model is measured on
them, the regression may learn them, too (`learn_anew`). Regression and scales lower the loss in
which the model was trained, so that all kinds of labels are learned in one way.

On a frozen pretrained encoder the regression learns from the mean of its states, too; how strongly
the words beside them are regularised is then chosen by rows out of their folds.

Shapes: N training rows, B rows, n parts of a text (`LinearPart`), V words, F features, n V words
and then n `num_pairs` pairs, L labels or numbers.
"""

import logging
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, diags_array, hstack, vstack
from scipy.sparse.linalg import aslinearoperator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..data.table import present
from ..models.answers import answers_of
from ..models.layers_self_attentive import LinearPart
from ..models.modeling_self_attentive import penalised_loss

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]

# Of a pair beside a word: pairs are rarer, and there are more of them.
WEIGHT_OF_PAIRS = 0.7
# scikit-learn's C, the inverse of the regularisation. Many rows whose labels are hard to tell need
# a smaller one than the first: with 2.0 the regression learns them by heart.
STRENGTHS = (2.0, 0.6, 0.2, 0.06)
# In few rows most words stand once or twice; with 2.0 such a word says too little.
FEW_ROWS = 2_000
STRENGTHS_OF_FEW = (60.0, 20.0, 6.0, *STRENGTHS)
# Of what words share beside what is their own, and the sizes of the n-grams, with the word's ends.
# Twice the weight costs accuracy where words are single characters, or the rows are few reviews.
WEIGHT_OF_NGRAMS = 0.5
NGRAMS = (3, 6)
# Of the states of a pretrained encoder, each of deviation 1 over their number, and of the words
# beside them: in reviews these say more than the states, in short sentences little that is new.
STRENGTH_OF_STATES = 6.0
STRENGTHS_BESIDE_STATES = (2.0, 0.6, 0.2)
FOLDS = 5
MOST_JUDGED = 2_000  # rows that choose the strength out of their folds
# In nats: a smaller C that makes the validation labels more likely by less may do so by chance.
LEAST_GAIN = 0.25
LEAST_DEVIATION = 1e-3  # of a state that is nearly the same in all rows
# Of a fit; more change no prediction.
STEPS = {"maxiter": 200, "gtol": 1e-4}
# How much the first scales weigh beside the validation rows: a few rows alone would choose any
# share, a thousand outvote them.
WEIGHT_OF_FIRST = 2.0
LEAST_VARIANCE = 1e-6  # of the errors of numbers, in units of their deviation
BATCH = 32  # rows that the model reads at once
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Scales(NamedTuple):
    """How much the parts of the logits count: a of the hops, b of the words, c of the bias."""

    hops: float
    words: float
    bias: float


USUAL = Scales(0.3, 0.6, 0.3)  # by these sizes the distance from the first scales is measured
# Where no rows choose: hops and bias together know the whole prior, as `write` takes it.
WITHOUT_ROWS = Scales(0.3, 0.6, 0.7)
# Where few rows choose. The hops have to earn more than the least share: those of few texts only
# know these. With none they could never be trained on.
FIRST = Scales(0.01, 0.6, 0.6)


class WordRegression(NamedTuple):
    """The weights of a regression, whose outputs are those that the last layer should have."""

    weights: Array  # of the words of each part, then of the pairs if there are any, (F, L)
    bias: Array  # (L,)
    strength: float  # scikit-learn's C


class Fit(NamedTuple):
    """A regression, the scales that go with it, and the loss of the validation rows."""

    regression: WordRegression
    scales: Scales
    loss: float = 0.0  # the sum over the labels


class WordRows:
    """Encoded rows as the regression reads them, and the loss of the model on them.

    ngrams: of each word its shares of the n-grams that it has in common with others, (n V, K).
    """

    def __init__(self, rows: Dataset, model: Any, words: Sequence[str] = ()) -> None:
        self.features, self.roots = features_of(rows, model)  # (B, F) and (B,)
        self.num_words = len(model.linear_part.word_weight.flatten(0, 1))  # n V
        self.num_states = 0  # of the last features: those of the mean state
        self.ngrams = csr_array((self.num_words, 0))
        if model.reads_mean_state:
            self.num_states = len(model.linear_part.state_weight)
        elif words:  # beside states, which say more of rare words, n-grams cost accuracy
            num_parts = len(model.linear_part.word_weight)
            self.ngrams = block_diag([shared_ngrams(words)] * num_parts, format="csr")
        self.num_outputs = model.config.num_labels  # L
        self.config = copy(model.config)
        self.config.class_weights = None
        self.labels = torch.tensor(rows["labels"][:])
        self.answers = answers_of(model.config)
        if not self.answers.has_labels:
            self.labels = before_units(self.labels, model.config)
            self.config.target_mean = self.config.target_deviation = None
        # scikit-learn has one weight of two labels, the difference, whose square is twice as much,
        # and a ridge without the half of the squares.
        is_of_two = self.answers.has_one_label and self.num_outputs == 2
        self.cost_of_square = 2 if is_of_two or not self.answers.has_labels else 1

    @property
    def num_labels(self) -> int:
        """How many labels these rows have: one each, or one for each output."""
        return len(self.labels) if self.answers.has_one_label else self.labels.numel()

    def take(self, places: NDArray[np.intp]) -> "WordRows":
        """Return the rows at these places."""
        taken = copy(self)
        taken.features = self.features[places]
        taken.roots = self.roots[places]
        taken.labels = self.labels[torch.from_numpy(places)]
        return taken

    def nat(self, loss: float) -> float:
        """Return the loss of a row that is one nat, where rows have this mean loss."""
        return 1.0 if self.answers.has_labels else 2 * max(loss, LEAST_VARIANCE)

    def loss(self, outputs: Array) -> tuple[float, Array]:
        """Return the mean loss of the labels with outputs (B, L) of the last layer, and its slope.

        The slope is (B, L).
        """
        asked = torch.from_numpy(outputs).requires_grad_()
        with torch.enable_grad():
            loss = penalised_loss(asked, self.labels, torch.zeros(len(asked)), self.config)
        (slope,) = torch.autograd.grad(loss, asked)
        return loss.item(), slope.numpy()


def fit_linear_part(
    model: Any, train: Dataset, validation: Dataset | None = None, words: Sequence[str] = ()
) -> Fit:
    """Fit the linear part of a trained classifier, and scale the parts of its logits.

    The model is changed, without answer sets, and in evaluation mode afterwards.

    An older linear part is replaced, but scales of the hops multiply. Numbers are scaled around the
    `target_mean` of the config. Without validation rows the parts count as they usually do.

    Args:
        model: A classifier of texts or pairs whose config has a `linear_part`.
        train: The rows that it was trained on, with `input_ids` and `labels`, and for pairs
            `token_type_ids`.
        validation: Rows that it was not trained on.
        words: The words of the vocabulary by their ids. Those with characters in common then share
            a part of their weights.

    Returns what was fitted. Its scales are that of the hops, by which the last layer is multiplied,
    that of the words, which is 0 where they add nothing, and that of their bias.
    ValueError is raised for ids that the model does not know.
    """
    learned = WordRows(train, model, words)
    model.eval().config.answer_threshold = None
    clear(model.linear_part)
    if validation is None:
        fit = Fit(regression_of(learned, STRENGTHS[0]), WITHOUT_ROWS)
    else:
        of_hops = before_units(outputs_for(model, validation), model.config).numpy()
        fit = best_fit(learned, WordRows(validation, model), of_hops)
    with torch.no_grad():
        for parameter in model.classifier.output.parameters():
            parameter.mul_(fit.scales.hops)
    write(model, fit.regression, fit.scales)
    logger.info(
        f"linear part: logits of the hops times {fit.scales.hops:.2f}, of the words times "
        f"{fit.scales.words:.2f}, of their bias times {fit.scales.bias:.2f} "
        f"(C = {fit.regression.strength:g})"
    )
    return fit


def learn_anew(model: Any, fit: Fit, rows: Dataset, words: Sequence[str] = ()) -> None:
    """Let the linear part of a model learn other rows, with the scales and the strength of a fit.

    These are more rows than those of the `fit`, such as the validation rows beside the others: a
    regression gains from each, and what was chosen stays right.
    """
    regression = regression_of(WordRows(rows, model, words), fit.regression.strength)
    write(model, regression, fit.scales)


@torch.no_grad()
def clear(linear_part: LinearPart) -> None:
    """Let a linear part add nothing."""
    for weight in linear_part.parameters():
        weight.zero_()


def best_fit(learned: WordRows, validation: WordRows, of_hops: Array) -> Fit:
    """Return the fit of the first strength, or of a later one that makes the labels likelier.

    `of_hops` are what the last layer has for the validation rows, (B, L).
    """
    are_few = len(learned.roots) < FEW_ROWS
    strengths: tuple[float, ...] = STRENGTHS_OF_FEW if are_few else STRENGTHS
    if learned.num_states:
        strengths = (strength_beside_states(learned),)
    regressions = (regression_of(learned, strength) for strength in strengths)
    fits = (fit_scales(regression, validation, of_hops) for regression in regressions)
    best = next(fits)
    for fit in fits:
        nat = validation.nat(fit.loss / validation.num_labels)
        if best.loss - fit.loss > LEAST_GAIN * nat:
            best = fit
    return best


def strength_beside_states(rows: WordRows) -> float:
    """Return the strength of the words that makes rows likeliest which have not taught them.

    At the scale that does so for each: texts of other lengths need another.
    """
    from sklearn.model_selection import KFold  # here, because `import sase_hf` needs none

    order = np.random.default_rng(0).permutation(len(rows.roots))
    places = order[:MOST_JUDGED]
    judged = rows.take(places)
    losses = []
    for strength in STRENGTHS_BESIDE_STATES:
        outputs = np.zeros((len(places), rows.num_outputs))
        for teaching, fold in KFold(FOLDS).split(places):
            weights, bias, _ = regression_of(judged.take(teaching), strength)
            outputs[fold] = judged.features[fold] @ weights + bias
        one = np.ones((1, 1))
        scale = likeliest(judged, outputs.reshape(-1, 1), one, one)
        loss, _ = judged.loss(scale * outputs)
        losses.append(loss)
    return STRENGTHS_BESIDE_STATES[np.argmin(losses)]


def regression_of(rows: WordRows, strength: float) -> WordRegression:
    """Return the regression that N rows teach, with scikit-learn's C as its `strength`."""
    features = rows.features
    num_rows, num_features = features.shape
    # The inverse document frequency, less for pairs, over how often the feature stands in a row
    # that has it: without the latter "the", thirty times in a review, outweighs what is said once.
    num_with = np.bincount(features.indices, minlength=num_features)
    factors = np.log((1 + num_rows) / (1 + num_with)) + 1
    factors[rows.num_words :] *= WEIGHT_OF_PAIRS
    factors *= num_with.clip(1) / (rows.roots @ features).clip(1)
    if rows.num_states:
        deviations = features[:, -rows.num_states :].toarray().std(0).clip(LEAST_DEVIATION)
        share = STRENGTH_OF_STATES / strength / rows.num_states
        factors[-rows.num_states :] = np.sqrt(share) / deviations
    # A feature has a weight of its own, 0 if no row has it, and a word those of its n-grams, too.
    is_seen = num_with > 0
    own = diags_array(factors, format="csr")[:, is_seen]
    shared = diags_array(WEIGHT_OF_NGRAMS * factors[: rows.num_words]) @ rows.ngrams
    shared = shared[:, is_seen[: rows.num_words] @ shared > 0]
    shared.resize(num_features, shared.shape[1])
    spread = hstack([own, shared], format="csr")
    of_seen = block_diag([spread[is_seen], [[1.0]]], format="csr")
    of_bias = np.ones((num_rows, 1))
    seen = hstack([features[:, is_seen], of_bias], format="csr")
    matrix = aslinearoperator(seen) @ aslinearoperator(of_seen)
    costs = np.full((of_seen.shape[1], 1), rows.cost_of_square / strength)
    costs[-1] = 0
    found = likeliest(rows, matrix, np.zeros((len(costs), rows.num_outputs)), costs)
    return WordRegression(spread @ found[:-1], found[-1], strength)


def shared_ngrams(words: Sequence[str]) -> csr_array:
    """Return how V words share n-grams of characters, as TF-IDF counts them: (V, K), or (V, 0)."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # as above

    try:
        vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=NGRAMS, min_df=2)
        return csr_array(vectorizer.fit_transform(words))
    except ValueError:  # no two words share any, such as those of Chinese
        return csr_array((len(words), 0))


def fit_scales(regression: WordRegression, rows: WordRows, of_hops: Array) -> Fit:
    """Return the fit whose scales make the labels of B rows likeliest, near the `FIRST` ones."""
    of_words = rows.features @ regression.weights
    of_bias = np.broadcast_to(regression.bias, of_words.shape)
    parts = np.stack(
        [
            of_hops.ravel(),
            of_words.ravel(),
            of_bias.ravel(),
        ],
        axis=1,
    )
    losses = [rows.loss(part)[0] for part in (of_hops, of_words + of_bias)]
    weight = rows.nat(min(losses)) * 2 * WEIGHT_OF_FIRST
    costs = weight / np.reshape(USUAL, (3, 1)) ** 2
    first = np.reshape(FIRST, (3, 1))
    bounds = [(FIRST.hops, None), (0, None), (0, None)]
    found = likeliest(rows, parts, first, costs, bounds=bounds)
    scales = Scales(*found.ravel().tolist())
    loss, _ = rows.loss((parts @ found).reshape(of_hops.shape))
    return Fit(regression, scales, loss * rows.num_labels)


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


# ---- features, and the model ---------------------------------------------------------------------


@torch.no_grad()
def features_of(rows: Dataset, model: Any) -> tuple[csr_array, Array]:
    """Return how often each feature stands in B rows, over sqrt(T), (B, F), and sqrt(T), (B,).

    The mean states are zero unless the encoder is frozen: one that learns has fitted its states to
    the labels. ValueError: a row has ids that the model does not know.
    """
    words = model.linear_part
    blocks, scales = [], []
    for batch in padded(rows, model):
        inputs = [batch.get(name) for name in INPUTS]
        texts = words.aligned(inputs)
        scales.append(texts.scale)
        block = [_counts(texts.of_words, texts.rows.real, texts.scale, words.word_weight)]
        if words.pair_weight is not None:
            real = texts.rows.real[:, 1:]
            block.append(_counts(texts.of_pairs, real, texts.scale, words.pair_weight))
        if model.reads_mean_state:
            means = torch.zeros(len(texts.scale), len(words.state_weight))
            if model.config.freeze_embeddings:
                states = model.eval()(**batch, return_dict=True).last_hidden_state
                means = words.features(inputs, states)
            block.append(csr_array(means.double().cpu().numpy()))
        blocks.append(hstack(block))
    return vstack(blocks, format="csr"), 1 / torch.cat(scales).flatten().cpu().double().numpy()


def _counts(ids: Tensor, real: Tensor, scale: Tensor, weights: Tensor) -> csr_array:
    """Return how often each id is among the real ones of B rows, times their scales (B, 1).

    The ids are (B n, S), rows of the weights (n, K, L), which lie one below the other.
    """
    num_rows = len(scale)
    part = real.nonzero()[:, 0].cpu()
    row = part // (len(ids) // num_rows)
    values = scale.cpu().double()[row, 0].numpy()
    columns = ids[real].cpu().numpy()
    places = (row.numpy(), columns)
    return csr_array((values, places), shape=(num_rows, len(weights.flatten(0, 1))))


def padded(rows: Dataset, model: Any) -> Iterator[dict[str, Tensor]]:
    """Yield encoded rows as batches that a model reads, padded on the right.

    Without a mask of their own all their tokens are real.
    """
    for batch in rows.select_columns(present(INPUTS, rows)).with_format("torch").iter(BATCH):
        batch.setdefault("attention_mask", [torch.ones_like(ids) for ids in batch["input_ids"]])
        padded = {name: pad_sequence([*batch[name]], batch_first=True) for name in batch}
        yield {name: tensor.to(model.device) for name, tensor in padded.items()}


@torch.no_grad()
def outputs_for(model: Any, rows: Dataset, name: str = "logits") -> Tensor:
    """Return an output of a model for encoded rows on the CPU, (B, L) of logits."""
    model.eval()
    batches = padded(rows, model)
    outputs = [model(**batch, return_dict=True)[name].flatten(1) for batch in batches]
    return torch.cat(outputs).float().cpu()


def logits_of_hops(model: Any, rows: Dataset) -> NDArray[np.float32]:
    """Return the logits that a model would have without a linear part, (B, L)."""
    words = model.linear_part
    model.linear_part = None
    try:
        return outputs_for(model, rows).numpy()
    finally:
        model.linear_part = words


def before_units(values: Tensor, config: Any) -> Tensor:
    """Return outputs (B, L) before the units of numbers and the weights of classes."""
    zero = torch.zeros(config.num_labels, dtype=torch.float64)
    mean = zero + torch.tensor(config.target_mean or config.log_weights)
    deviation = zero + torch.tensor(config.target_deviation or 1.0)
    return (values.reshape(-1, config.num_labels) - mean) / deviation


@torch.no_grad()
def write(model: Any, regression: WordRegression, scales: Scales) -> None:
    """Put a scaled regression into a model."""
    units = torch.tensor(model.classifier.output.deviation or 1.0)
    weights = torch.from_numpy(scales.words * regression.weights) * units
    # Of the words, the pairs of words and the mean state.
    *tables, bias = model.linear_part.parameters()
    # The scaled hops bring a part of what the classes gain by their weights.
    gained = (1 - scales.hops) * torch.tensor(model.config.log_weights)
    bias.copy_(torch.from_numpy(scales.bias * regression.bias) * units + gained)
    sizes = [len(table.flatten(0, -2)) for table in tables]
    for table, part in zip(tables, weights.split(sizes), strict=True):
        table.copy_(part.view_as(table))
