"""How sharply the hops attend, and how much alike, over many texts."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .dataset import Sample

QUANTILES = (5, 25, 50, 75, 95)


def measure_attention(sample: Sample, batch_size: int = 32) -> dict[str, Any]:
    """Describe the distribution over texts of each hop's entropy and overlap.

    The entropy of a hop's weights is divided by log T, the entropy of equal weights on the T tokens
    of the text, so that texts of all lengths compare: 0 for all attention on one token, 1 for the
    same on each. The overlap of a hop is the mean of a_i . a_j over the other hops; its mean over
    the hops is the `overlap` of the pipeline's results. Both sentences of a pair count as texts.
    Texts of fewer than two tokens leave no choice and are left out.

    Args:
        sample: A model with attention and its texts.
        batch_size: Texts, or pairs, in a batch.

    Returns:
        `num_texts`, `num_left_out`; `entropy` and `overlap`, each with `mean` over all texts and
        hops, and `hops`: for each hop `mean` and the percentiles `p5`, `p25`, `p50`, `p75`, `p95`.

    Raises:
        ValueError: If no text has two tokens, or attention is no finite number.
    """
    entropies, overlaps, num_left_out = [], [], 0
    for _, batch in sample.batches(batch_size, "Reading attention"):
        with torch.no_grad():
            attention = sample.model(**batch, output_attentions=True).attentions[0]
        if not attention.isfinite().all():
            raise ValueError(
                f"{sample.model.name_or_path} gives attention that is no finite number; look for "
                "NaN in its weights, or name another checkpoint"
            )
        attention = attention.flatten(0, -3).double()  # (B, r, T), of pairs (2 * B, r, T)
        lengths = _lengths(batch, sample.model.reads_pairs)
        enough = lengths >= 2
        num_left_out += int((~enough).sum())
        entropies.append(normalised_entropy(attention[enough], lengths[enough]))
        overlaps.append(overlap(attention[enough]))
    entropy, alike = torch.cat(entropies).cpu().numpy(), torch.cat(overlaps).cpu().numpy()
    if not len(entropy):
        raise ValueError(
            "no text has two tokens, so there is no choice of where to look; give longer texts"
        )
    return {
        "num_texts": len(entropy),
        "num_left_out": num_left_out,
        "entropy": _distribution(entropy),
        "overlap": _distribution(alike),
    }


def normalised_entropy(attention: Tensor, lengths: Tensor) -> Tensor:
    """Return the entropy of each hop's weights as a share of log T.

    Args:
        attention: A, zero on padding, shape (B, r, T).
        lengths: Real tokens of each text, at least 2, shape (B,).

    Returns:
        Shape (B, r).
    """
    return torch.special.entr(attention).sum(-1) / lengths.log().unsqueeze(1)


def overlap(attention: Tensor) -> Tensor:
    """Return the mean product of each hop's weights with those of the others.

    Args:
        attention: A, zero on padding, shape (B, r, T).

    Returns:
        Shape (B, r); zero where there is one hop.
    """
    products = attention @ attention.transpose(1, 2)  # (B, r, r)
    own = products.diagonal(dim1=1, dim2=2)
    return (products.sum(-1) - own) / max(1, attention.shape[1] - 1)


def _lengths(batch: dict[str, Tensor], is_pair: bool) -> Tensor:
    """Return the number of real tokens of each text, in the order of the attention."""
    real = batch["attention_mask"] != 0
    if not is_pair:
        return real.sum(1)
    types = batch["token_type_ids"]
    return torch.stack([(real & (types == side)).sum(1) for side in (0, 1)], 1).flatten()


def _distribution(values: np.ndarray) -> dict[str, Any]:
    """Describe numbers of shape (texts, hops)."""
    percentiles = np.percentile(values, QUANTILES, axis=0)
    means = values.mean(0)
    hops = [
        {"mean": float(means[hop])}
        | {f"p{q}": float(percentiles[row, hop]) for row, q in enumerate(QUANTILES)}
        for hop in range(values.shape[1])
    ]
    return {"mean": float(values.mean()), "hops": hops}


__all__ = ["measure_attention", "normalised_entropy", "overlap"]
