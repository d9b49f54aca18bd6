"""Measure how many words hops read, how similar hops are, and whether they read listed words.

Shapes: B texts, T tokens, r hops.
"""

import math
from collections import defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import TokenizersBackend

from sase_hf.utils.errors import refusal
from sase_hf.utils.files import FilePath

from .dataset import Batch, EvaluationDataset

QUANTILES = (5, 25, 50, 75, 95)

# Every hop of every text has these numbers.
DISTRIBUTIONS = ("entropy", "effective_words", "cosine")


def measure_attention(
    dataset: EvaluationDataset, batch_size: int = 32, words: Collection[str] = ()
) -> dict[str, Any]:
    """Measure the attention of a model over many texts; both sentences of a pair are texts.

    A text of fewer than two tokens is left out, because it gives attention no choice. `lift` needs
    a list of `words`, whose case does not matter.

    Returns `num_texts`, `num_left_out`, and four numbers. Each has the `mean` over texts and hops,
    and in `hops`, for each hop, the `mean` and the percentiles `p5` to `p95` (none for `lift`):

    - `entropy`: the entropy of a hop's weights over log T, that of equal weights: 0 if one token
      has all attention, 1 if all tokens have the same;
    - `effective_words`: exp of the entropy, the number of equal weights with that entropy;
    - `cosine`: the mean cosine between the weights of a hop and of each other hop: 0 if hops share
      no token, 1 if they are equal;
    - `lift`: the attention on listed words over their share of the tokens, both averaged over the
      texts: 1 if listed words get as much as others.

    Raises ValueError if no text has two tokens or a listed word.
    """
    of_batches: dict[str, list[Tensor]] = defaultdict(list)
    listed_ids = _ids_of(words, dataset.tokenizer)
    num_texts = 0
    num_left_out = 0
    for _, batch in dataset.batches(batch_size, "Reading attention"):
        attention, real, ids = _read(dataset, batch)
        is_long_enough = real.sum(1) >= 2
        num_kept = int(is_long_enough.sum())
        num_texts += num_kept
        num_left_out += len(real) - num_kept
        listed = torch.isin(ids[is_long_enough], listed_ids.to(ids.device))
        of_texts = _of_texts(attention[is_long_enough], real[is_long_enough], listed)
        for name, of_batch in of_texts.items():
            of_batches[name].append(of_batch)
    if num_texts == 0:
        raise refusal("no text has two tokens, so attention has no choice", "give longer texts")
    values = {name: torch.cat(tensors).cpu().numpy() for name, tensors in of_batches.items()}
    measured = {name: _distribution(values[name]) for name in DISTRIBUTIONS}
    if words:
        if not values["share"].any():
            raise refusal(
                f"no text has one of the {len(words)} listed words",
                "name another list",
            )
        lifts = values["listed"].mean(0) / values["share"].mean()
        hops = [{"mean": lift} for lift in lifts.tolist()]
        measured["lift"] = {"mean": float(lifts.mean()), "hops": hops}
    return {"num_texts": num_texts, "num_left_out": num_left_out, **measured}


def _ids_of(words: Collection[str], tokenizer: TokenizersBackend) -> Tensor:
    """Return the ids of the tokens that are one of the words, in any case."""
    wanted = {word.casefold() for word in words}
    ids = [id_ for token, id_ in tokenizer.get_vocab().items() if token.casefold() in wanted]
    return torch.tensor(ids, dtype=torch.long)


def hop_cosine(attention: Tensor) -> Tensor:
    """Return the mean cosine of each hop with the others (B, r), 0 if alone, from A (B, r, T)."""
    directions = F.normalize(attention, dim=-1)
    cosines = directions @ directions.mT  # (B, r, r)
    with_itself = cosines.diagonal(dim1=1, dim2=2)
    num_others = max(1, attention.shape[1] - 1)
    return (cosines.sum(-1) - with_itself) / num_others


def read_word_list(file: FilePath) -> dict[str, float]:
    """Return the words of a file, a line each, with the size of the number behind the first tab.

    A word without a rating has 1. The first line may be a header.
    """
    words: dict[str, float] = {}
    with open(file, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            word, _, columns = line.rstrip("\n").partition("\t")
            rating = _rating_of(columns.partition("\t")[0], number)
            word = word.strip()
            if word:
                words[word] = rating
    if not words:
        raise refusal(f"{file} has no words", "give a text file with a word on each line")
    return words


def _rating_of(cell: str, line_number: int) -> float:
    """Return the size of a rating: 1 of an empty cell, 0 of the name of the column."""
    if not cell:
        return 1.0
    try:
        rating = abs(float(cell))
    except ValueError:
        if line_number == 1:
            return 0.0
        rating = math.nan
    if not math.isfinite(rating):
        raise ValueError(f"line {line_number}: {cell!r} is no finite number")
    return rating


@torch.no_grad()
def _read(dataset: EvaluationDataset, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return attention (B, r, T), real tokens and ids (B, T); B counts both sides of pairs."""
    attention = dataset.model(**batch, output_attentions=True).attentions[0]
    real = batch["attention_mask"] != 0
    ids = batch["input_ids"]
    if attention.dim() == 4:  # of pairs, (B / 2, 2, r, T)
        sides = torch.arange(2, device=ids.device).view(1, 2, 1)
        is_of_side = batch["token_type_ids"].unsqueeze(1) == sides
        real = (real.unsqueeze(1) & is_of_side).flatten(0, 1)
        ids = ids.repeat_interleave(2, 0)
        attention = attention.flatten(0, 1)
    return attention.double(), real, ids


def _of_texts(attention: Tensor, real: Tensor, listed: Tensor) -> dict[str, Tensor]:
    """Return for each hop of each text (B, r) a number by name, and the `share` of listed words."""
    lengths = real.sum(1)
    entropies = torch.special.entr(attention).sum(-1)
    counted = (listed & real).double()
    return {
        "entropy": entropies / lengths.log().unsqueeze(1),
        "effective_words": entropies.exp(),
        "cosine": hop_cosine(attention),
        "listed": (attention @ counted.unsqueeze(-1)).squeeze(-1),
        "share": counted.sum(1) / lengths,
    }


def _distribution(values: np.ndarray) -> dict[str, Any]:
    """Return the mean and percentiles of numbers (B, r)."""
    columns = {"mean": values.mean(0)}
    for level, percentiles in zip(QUANTILES, np.percentile(values, QUANTILES, axis=0), strict=True):
        columns[f"p{level}"] = percentiles
    hops = []
    for hop in range(values.shape[1]):
        hops.append({name: float(column[hop]) for name, column in columns.items()})
    return {"mean": float(values.mean()), "hops": hops}
