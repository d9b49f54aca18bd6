"""How many words the hops read, how much alike they are, and whether they read words of a list."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..utils.files import FilePath
from .dataset import Batch, EvaluationDataset

QUANTILES = (5, 25, 50, 75, 95)

# Each is measured for every hop of every text.
DISTRIBUTIONS = ("entropy", "effective_words", "cosine")


def measure_attention(
    dataset: EvaluationDataset, batch_size: int = 32, words: Collection[str] = ()
) -> dict[str, Any]:
    """Measure the attention of a model over many texts.

    Both sentences of a pair count as texts. Texts of fewer than two tokens leave nothing to choose
    and do not count.

    - `entropy`, of a hop's weights, divided by log T, that of equal weights: 0 if all attention is
      on one token, 1 if each token gets the same;
    - `effective_words`, exp of the entropy: the number of equal weights with the same entropy;
    - `cosine`, the mean cosine between the weights of a hop and those of each other hop: 0 if hops
      share no token, 1 if they are equal;
    - `lift`, the attention on tokens of a word list over the share of these tokens, both averaged
      over the texts: 1 if they get as much as other tokens.

    Args:
        dataset: A model with attention and its texts.
        batch_size: Texts, or pairs, in a batch.
        words: The word list, without regard to case; none for no `lift`.

    Returns:
        `num_texts`, `num_left_out`; for `entropy`, `effective_words` and `cosine` each `mean` over
        all texts and hops, and `hops`: for each hop `mean` and the percentiles `p5`, `p25`, `p50`,
        `p75`, `p95`; with `words` also `lift`: `mean` and for each hop `mean`.

    Raises:
        ValueError: If no text has two tokens, attention is not finite, or no text has a word of
            the list.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in (*DISTRIBUTIONS, "listed", "share")}
    listed_ids = _ids_of(words, dataset)
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
        real, ids = _texts(batch, attention.shape[0])
        enough = real.sum(1) >= 2
        num_left_out += int((~enough).sum())
        attention, real, ids = attention[enough], real[enough], ids[enough]
        lengths = real.sum(1)
        entropies = torch.special.entr(attention).sum(-1)
        parts["entropy"].append(entropies / lengths.log().unsqueeze(1))
        parts["effective_words"].append(entropies.exp())
        parts["cosine"].append(hop_cosine(attention))
        listed = (torch.isin(ids, listed_ids.to(ids.device)) & real).double()
        parts["listed"].append((attention @ listed.unsqueeze(-1)).squeeze(-1))
        parts["share"].append(listed.sum(1) / lengths)
    values = {name: torch.cat(part).cpu().numpy() for name, part in parts.items()}
    num_texts = len(values["entropy"])
    if not num_texts:
        raise ValueError("no text has two tokens, so attention has no choice; give longer texts")
    measured = {name: _distribution(values[name]) for name in DISTRIBUTIONS}
    if words:
        if not values["share"].any():
            raise ValueError(
                f"no text has one of the {len(words)} listed words as a token; name another list"
            )
        lifts = values["listed"].mean(0) / values["share"].mean()
        hops = [{"mean": lift} for lift in lifts.tolist()]
        measured["lift"] = {"mean": float(lifts.mean()), "hops": hops}
    return {"num_texts": num_texts, "num_left_out": num_left_out, **measured}


def hop_cosine(attention: Tensor) -> Tensor:
    """Return the mean cosine between each hop and the others, shape (B, r); 0 for one hop.

    Args:
        attention: A, zero on padding, shape (B, r, T).
    """
    directions = F.normalize(attention, dim=-1)
    cosines = directions @ directions.mT  # (B, r, r)
    own = cosines.diagonal(dim1=1, dim2=2)
    return (cosines.sum(-1) - own) / max(1, attention.shape[1] - 1)


def read_word_list(file: FilePath) -> set[str]:
    """Return the words of a file with a word at the start of each line, before a tab if any.

    Raises:
        ValueError: If the file has no words or is not UTF-8.
        OSError: If there is no such file.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is not UTF-8; give a text file with a word on each line"
        ) from error
    words = {line.split("\t")[0].strip() for line in lines} - {""}
    if not words:
        raise ValueError(f"{file} has no words; give a text file with a word on each line")
    return words


def _ids_of(words: Collection[str], dataset: EvaluationDataset) -> Tensor:
    """Return the ids of the listed words among the tokens."""
    wanted = {word.casefold() for word in words}
    vocabulary = dataset.tokenizer.get_vocab().items()
    return torch.tensor([index for token, index in vocabulary if token.casefold() in wanted]).long()


def _texts(batch: Batch, num_texts: int) -> tuple[Tensor, Tensor]:
    """Return the real tokens and the ids of each text (num_texts, T), in the attention's order."""
    real, ids = batch["attention_mask"] != 0, batch["input_ids"]
    if len(real) == num_texts:
        return real, ids
    sides = torch.arange(2, device=ids.device).view(1, 2, 1)  # of pairs
    of_side = batch["token_type_ids"].unsqueeze(1) == sides  # (B, 2, T)
    return (real.unsqueeze(1) & of_side).flatten(0, 1), ids.repeat_interleave(2, 0)


def _distribution(values: np.ndarray) -> dict[str, Any]:
    """Return mean and percentiles of numbers of shape (texts, hops)."""
    names = ["mean", *(f"p{level}" for level in QUANTILES)]
    rows = np.vstack([values.mean(0), np.percentile(values, QUANTILES, axis=0)])
    hops = [dict(zip(names, column, strict=True)) for column in rows.T.tolist()]
    return {"mean": float(values.mean()), "hops": hops}


__all__ = ["DISTRIBUTIONS", "hop_cosine", "measure_attention", "read_word_list"]
