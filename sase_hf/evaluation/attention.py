"""How sharply the hops attend, and how much alike, over many texts."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .dataset import Batch, EvaluationDataset

QUANTILES = (5, 25, 50, 75, 95)


def measure_attention(dataset: EvaluationDataset, batch_size: int = 32) -> dict[str, Any]:
    """Return the distribution over texts of the entropy and the overlap of each hop.

    Both sentences of a pair count as texts. Texts of fewer than two tokens leave nothing to choose
    and do not count.

    Args:
        dataset: A model with attention and its texts.
        batch_size: Texts, or pairs, in a batch.

    Returns:
        `num_texts`, `num_left_out`; for `entropy` and `overlap` each `mean` over all texts and
        hops, and `hops`: for each hop `mean` and the percentiles `p5`, `p25`, `p50`, `p75`, `p95`.

    Raises:
        ValueError: If no text has two tokens, or attention is not finite.
    """
    parts: dict[str, list[Tensor]] = {"entropy": [], "overlap": []}  # of shape (texts, r)
    num_left_out = 0
    for _, batch in dataset.batches(batch_size, "Reading attention"):
        with torch.no_grad():
            attention = dataset.model(**batch, output_attentions=True).attentions[0]
        if not attention.isfinite().all():
            raise ValueError(
                f"{dataset.model.name_or_path} gives attention that is not finite; look for NaN in "
                "its weights, or name another checkpoint"
            )
        attention = attention.flatten(0, -3).double()  # (B, r, T), of pairs (2 * B, r, T)
        lengths = _lengths(batch, attention.shape[0])
        enough = lengths >= 2
        num_left_out += int((~enough).sum())
        parts["entropy"].append(normalised_entropy(attention[enough], lengths[enough]))
        parts["overlap"].append(overlap(attention[enough]))
    values = {name: torch.cat(part).cpu().numpy() for name, part in parts.items()}
    num_texts = len(values["entropy"])
    if not num_texts:
        raise ValueError("no text has two tokens, so attention has no choice; give longer texts")
    distributions = {name: _distribution(value) for name, value in values.items()}
    return {"num_texts": num_texts, "num_left_out": num_left_out, **distributions}


def normalised_entropy(attention: Tensor, lengths: Tensor) -> Tensor:
    """Return the entropy of each hop's weights divided by log T, that of equal weights, (B, r).

    It is 0 for all attention on one token and 1 for the same on each.

    Args:
        attention: A, zero on padding, shape (B, r, T).
        lengths: Real tokens of each text, at least 2, shape (B,).
    """
    return torch.special.entr(attention).sum(-1) / lengths.log().unsqueeze(1)


def overlap(attention: Tensor) -> Tensor:
    """Return the mean of a_i . a_j over the other hops j of each hop i, shape (B, r).

    Its mean over the hops is the `overlap` of the pipeline's results; of one hop it is zero.

    Args:
        attention: A, zero on padding, shape (B, r, T).
    """
    products = attention @ attention.transpose(1, 2)  # (B, r, r)
    own = products.diagonal(dim1=1, dim2=2)
    return (products.sum(-1) - own) / max(1, attention.shape[1] - 1)


def _lengths(batch: Batch, num_texts: int) -> Tensor:
    """Return the number of real tokens of each text, in the order of the attention."""
    real = batch["attention_mask"] != 0
    if len(real) == num_texts:
        return real.sum(1)
    types = batch["token_type_ids"]  # of pairs
    return torch.stack([(real & (types == side)).sum(1) for side in (0, 1)], 1).flatten()


def _distribution(values: np.ndarray) -> dict[str, Any]:
    """Return mean and percentiles of numbers of shape (texts, hops)."""
    names = ["mean", *(f"p{level}" for level in QUANTILES)]
    rows = np.vstack([values.mean(0), np.percentile(values, QUANTILES, axis=0)])
    hops = [dict(zip(names, column, strict=True)) for column in rows.T.tolist()]
    return {"mean": float(values.mean()), "hops": hops}


__all__ = ["measure_attention", "normalised_entropy", "overlap"]
