"""Scores of tokens that may explain a prediction, and what they cost.

The scores are those of the attention, of the contributions
(`sase_hf.models.contributions_self_attentive`), and their competitors: gradient times input, the
probability lost by leaving a token out, Integrated Gradients (Sundararajan et al., 2017) of the
probability, and random numbers. All explain the class that the model predicts.

An attribution is one score per token. Shapes: B texts, T tokens, K attributions.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sase_hf.models.answers import SINGLE_LABEL, answers_of
from sase_hf.models.contributions_self_attentive import (
    backward_in_evaluation_mode,
    check_label_ids,
    explain,
)

from .dataset import Batch, EvaluationDataset

MAX_GRADIENT_BATCH = 256  # texts times steps of the integral in one batch; bounds the memory
# Attributions that cannot tell what speaks against the class.
UNSIGNED = ("attention", "integrated_gradients_unsigned")


class Attributions(NamedTuple):
    """The attributions of a batch.

    Attributes:
        numbers: The numbers of the texts among the rows of the dataset.
        batch: What the model reads.
        classes: The predicted classes, shape (B,).
        names: Those of the scores but the random ones.
        scores: Shape (B, T) each, the random ones last, one for each order.
        seconds: Seconds of the processor by name.
        errors: The sum of the Integrated Gradients minus the change of the probability, shape (B,);
            None without them.
    """

    numbers: list[int]
    batch: Batch
    classes: Tensor
    names: list[str]
    scores: list[Tensor]
    seconds: dict[str, float]
    errors: Tensor | None

    def by_name(self, measured: np.ndarray) -> dict[str, np.ndarray]:
        """Name what was measured on the scores; the mean over the random orders is `random`."""
        named = dict(zip(self.names, measured, strict=False))
        return named | {"random": measured[len(self.names) :].mean(0)}


def attributions(
    dataset: EvaluationDataset,
    description: str,
    *,
    integrated_gradients_steps: int = 16,
    random_orders: int = 3,
    batch_size: int = 32,
    seed: int = 42,
) -> Iterator[Attributions]:
    """Yield the attributions of the rows, a batch at a time.

    Attention and contributions are summed over the hops, for a pair over both sentences. Integrated
    Gradients are positive where a token supports the class; attention has no sign. So they are two
    attributions: with their sign, and without as `integrated_gradients_unsigned`. 0
    `integrated_gradients_steps` leave both out. The seed draws the `random_orders` of a text.

    Raises:
        ValueError: If the model is no single-label classifier, or a score is not finite.
        ImportError: If Captum is needed and missing.
    """
    # transformers leaves the problem type of a single-label model open.
    answers = answers_of(dataset.model.config)
    if not answers.has_one_label:
        raise ValueError(f"the model answers {answers.kind}; it must be {SINGLE_LABEL}")
    steps = integrated_gradients_steps
    if steps < 0:
        raise ValueError(f"--integrated_gradients_steps is {steps}; it must be 0 or more")
    if random_orders < 1:
        raise ValueError(f"--random_orders is {random_orders}; it must be 1 or more")
    for numbers, batch in dataset.batches(batch_size, description):
        classes, scores, seconds = _of_batch(dataset.model, batch, steps)
        errors = scores.pop("errors", None)
        generators = [np.random.default_rng((seed, number)) for number in numbers]
        # Token by token, so that padding does not change the scores of the real tokens.
        size = (batch["input_ids"].shape[1], random_orders)
        drawn = np.stack([generator.random(size) for generator in generators])
        every = [*scores.values(), *torch.as_tensor(drawn, device=classes.device).unbind(-1)]
        if not all(score.isfinite().all() for score in every):
            raise ValueError(f"{dataset.model.name_or_path} gives scores that are not finite")
        yield Attributions(numbers, batch, classes, [*scores], every, seconds, errors)


def _of_batch(
    model: PreTrainedModel, batch: Batch, steps: int
) -> tuple[Tensor, dict[str, Tensor], dict[str, float]]:
    """Return the predicted classes (B,), and scores and seconds by name."""
    start = time.process_time()
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    classes = outputs.logits.argmax(-1)
    scores = {"attention": outputs.attentions[0].flatten(1, -2).sum(1)}
    seconds = {"attention": time.process_time() - start}
    ways: dict[tuple[str, ...], Callable[..., Sequence[Tensor]]] = {
        ("contributions", "word_contributions"): contributions,
        ("gradient_times_input",): gradient_times_input,
        ("leaving_out",): leaving_out,
    }
    if steps:
        both = ("integrated_gradients", "integrated_gradients_unsigned", "errors")
        ways[both] = partial(integrated_gradients, steps=steps)
    for names, way in ways.items():
        start = time.process_time()
        scores |= zip(names, way(model, batch, classes), strict=True)
        spent = time.process_time() - start
        for name in names:
            seconds[name] = spent
    return classes, scores, seconds


def probability(model: PreTrainedModel, batch: Batch, classes: Tensor) -> Tensor:
    """Return the probability of the class of each text (B,), shape (B,).

    Raises:
        ValueError: If the classes have another shape or type, or are not among the model's.
    """
    num_texts = len(next(iter(batch.values())))
    check_label_ids("classes", classes, model, num_texts)
    return model(**batch).logits.softmax(-1).gather(1, classes.unsqueeze(1))[:, 0]


class _Inputs(NamedTuple):
    """What gradients are taken of: word vectors, and how much of each word the linear part reads.

    A linear part has weights for ids and no vectors. Half of a pair of words is of each of them.
    """

    embeds: Tensor  # (B, T, d)
    presence: Tensor  # 1 for each word, (B, T)
    by_words: Tensor  # what each word added by itself to each logit, (B, T, L)


def _inputs(model: Any, batch: Batch) -> _Inputs:
    ids = batch["input_ids"]
    embeds = model.get_input_embeddings()(ids).detach()
    num_labels = model.config.num_labels
    by_words = embeds.new_zeros(*ids.shape, num_labels)
    if model.linear_part is not None:
        one_hot = torch.eye(num_labels, device=ids.device)
        inputs = (ids, batch["attention_mask"], batch.get("token_type_ids"))
        for label in range(num_labels):
            weigh_labels = one_hot[label].expand(len(ids), -1)
            by_words[..., label] = model.linear_part.added(*inputs, weigh_labels).detach()
    return _Inputs(embeds, torch.ones_like(by_words[..., 0]), by_words)


def _probabilities(model: Any, batch: Batch, inputs: _Inputs) -> Tensor:
    """Return the probabilities (B, L), from inputs that need not be those of the batch."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    types = batch.get("token_type_ids")
    read = model.read(None, mask, types, inputs.embeds)
    matrices = read.sentence_embedding.unflatten(-1, (model.config.num_rows, -1))
    logits = model.classify(matrices, ids, mask, types)  # with all of the linear part
    missing = (inputs.presence - 1).unsqueeze(-1) * inputs.by_words
    return (logits + missing.sum(1)).softmax(-1)


def contributions(model: PreTrainedModel, batch: Batch, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the states at each token, and what each word added to the logit, (B, T) each."""
    why = explain(model, **batch, labels=classes)
    return why.contributions.flatten(1, -2).sum(1), why.words


def gradient_times_input(model: PreTrainedModel, batch: Batch, classes: Tensor) -> tuple[Tensor]:
    """Return the gradient of the probability, times the word vectors, shape (B, T)."""
    with backward_in_evaluation_mode(classes.device):
        inputs = _inputs(model, batch)
        inputs.embeds.requires_grad_()
        inputs.presence.requires_grad_()
        probabilities = _probabilities(model, batch, inputs)
        chosen = probabilities.gather(1, classes.unsqueeze(1)).sum()
        leaves = [inputs.embeds, inputs.presence]
        of_embeds, of_presence = torch.autograd.grad(chosen, leaves, materialize_grads=True)
    return ((of_embeds * inputs.embeds).sum(-1).detach() + of_presence,)


@torch.no_grad()
def leaving_out(model: PreTrainedModel, batch: Batch, classes: Tensor) -> tuple[Tensor]:
    """Return how far the probability of the class falls without each token, shape (B, T)."""
    real = batch["attention_mask"] != 0
    whole = probability(model, batch, classes)
    fallen = torch.zeros(real.shape, device=real.device)
    for place in real.any(0).nonzero()[:, 0].tolist():
        has = real[:, place].nonzero()[:, 0]
        without = {name: values[has] for name, values in batch.items()}
        without["attention_mask"][:, place] = 0
        fallen[has, place] = whole[has] - probability(model, without, classes[has])
    return (fallen,)


def integrated_gradients(
    model: PreTrainedModel, batch: Batch, classes: Tensor, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Attribute the probability of a class (B,) to tokens, from a baseline of zero word vectors.

    The linear part reads nothing at the baseline.
    `steps` are the points of the Gauss-Legendre rule. Returns scores (B, T), positive where a token
    supports the class, their sizes, and the sum of the scores minus the change of the probability
    (B,).
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as reason:
        raise ImportError(
            "Integrated Gradients need captum: pip install 'sase_hf[lab]', or give "
            "--integrated_gradients_steps 0"
        ) from reason
    check_label_ids("classes", classes, model, len(batch["input_ids"]))
    with backward_in_evaluation_mode(classes.device):
        inputs = _inputs(model, batch)
    embeds = inputs.embeds
    if embeds.shape[1] == 0:
        return embeds.sum(-1), embeds.sum(-1), embeds.sum((1, 2))

    def probabilities(embeds: Tensor, presence: Tensor, by_words: Tensor, *parts: Tensor) -> Tensor:
        repeated = dict(zip(batch, parts, strict=True))
        return _probabilities(model, repeated, _Inputs(embeds, presence, by_words))

    with backward_in_evaluation_mode(embeds.device):
        (of_embeds, of_presence), errors = IntegratedGradients(probabilities).attribute(
            (embeds, inputs.presence),
            target=classes,
            additional_forward_args=(inputs.by_words, *batch.values()),
            n_steps=steps,
            internal_batch_size=max(MAX_GRADIENT_BATCH, len(embeds)),
            return_convergence_delta=True,
        )
    scores = of_embeds.sum(-1) + of_presence
    return scores, scores.abs(), errors
