"""Orders in which the tokens of a text may matter: by attention, by gradients, at random.

Shapes: B texts, T tokens, r hops.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel
from .dataset import Batch

# Texts times steps of the integral that are read at once; it bounds the memory.
GRADIENT_BATCH_SIZE = 256


@torch.no_grad()
def predict(model: SelfAttentivePreTrainedModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the class of each text (B,) and the overall attention on its tokens (B, T).

    Args:
        model: A classifier with attention.
        batch: What it reads.

    Returns:
        Class ids, and the attention of all hops summed, of both sentences for a pair: the order of
        tokens by it is that of the overall attention.
    """
    outputs = model(**batch, output_attentions=True)
    attention = outputs.attentions[0]  # (B, r, T) or (B, 2, r, T)
    return outputs.logits.argmax(-1), attention.flatten(1, -2).sum(1)


def random_scores(like: Tensor, numbers: Sequence[int], count: int, seed: int) -> list[Tensor]:
    """Draw scores that order the tokens at random, for each text on its own.

    Args:
        like: Scores of shape (B, T).
        numbers: The numbers of the B texts; with the seed they alone decide what is drawn first, so
            that the size of the batch changes nothing.
        count: How many scores each token gets.
        seed: The seed.

    Returns:
        So many tensors of shape (B, T).
    """
    texts = [np.random.default_rng((seed, number)) for number in numbers]
    # Token by token, so that a longer padding does not change what the real tokens get.
    drawn = np.stack([text.random((like.shape[1], count)) for text in texts])
    return list(torch.as_tensor(drawn, device=like.device).unbind(-1))


def integrated_gradients(
    model: SelfAttentivePreTrainedModel, batch: Batch, classes: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Attribute the probability of a class to tokens, from a baseline of zero word vectors.

    Args:
        model: A classifier.
        batch: What it reads.
        classes: A class id for each text, shape (B,).
        steps: Points of the Gauss-Legendre rule on the way from the baseline to the text.

    Returns:
        Scores (B, T), positive where a token speaks for the class; and for each text (B,) the
        error of the integral: the sum of its scores minus the change of the probability.

    Raises:
        ImportError: If Captum is missing.
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as reason:
        raise ImportError(
            "Integrated Gradients need captum: pip install 'sase_hf[captum]', or leave them out "
            "with --integrated_gradients_steps 0"
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
            internal_batch_size=max(GRADIENT_BATCH_SIZE, len(embeds)),
            return_convergence_delta=True,
        )
    return scores.sum(-1), errors


def places_by_score(scores: Tensor, real: Tensor) -> Tensor:
    """Return the place of each token in the order of the scores.

    Args:
        scores: Shape (B, T).
        real: True on real tokens, shape (B, T).

    Returns:
        Shape (B, T): 0 for the highest score. Equal scores keep the order of the text, and padding
        comes last.

    Raises:
        ValueError: If the score of a real token is not a finite number.
    """
    bad = (~scores.isfinite() & real).any(1)
    if bad.any():
        raise ValueError(
            f"text {int(bad.long().argmax())} of the batch has a token whose score is no number, "
            "so its tokens cannot be ranked; look for NaN in the model's weights"
        )
    order = scores.masked_fill(~real, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1)


__all__ = ["integrated_gradients", "places_by_score", "predict", "random_scores"]
