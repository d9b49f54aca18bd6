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

from sase_hf.data.rows import text_lines, wrap_read_errors
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

    Returns `num_texts`, `num_left_out`, and four numbers, each with `mean` over texts and hops, and
    `hops`: for each hop `mean` and, but for `lift`, the percentiles `p5` to `p95`:

    - `entropy`: the entropy of a hop's weights over log T, that of equal weights: 0 if one token
      has all attention, 1 if all tokens have the same;
    - `effective_words`: exp of the entropy, the number of equal weights with that entropy;
    - `cosine`: the mean cosine between the weights of a hop and of each other hop: 0 if hops share
      no token, 1 if they are equal;
    - `lift`: the attention on listed words over their share of the tokens, both averaged over the
      texts: 1 if listed words get as much as others.

    Raises ValueError if no text has two tokens or a listed word.
    """
    parts: dict[str, list[Tensor]] = defaultdict(list)
    wanted = {word.casefold() for word in words}
    vocabulary = dataset.tokenizer.get_vocab().items()
    listed_ids = torch.tensor([i for token, i in vocabulary if token.casefold() in wanted]).long()
    num_left_out = 0
    for _, batch in dataset.batches(batch_size, "Reading attention"):
        attention, real, ids = _read(dataset, batch)
        enough = real.sum(1) >= 2
        num_left_out += int((~enough).sum())
        listed = torch.isin(ids[enough], listed_ids.to(ids.device))
        for name, part in _of_texts(attention[enough], real[enough], listed).items():
            parts[name].append(part)
    values = {name: torch.cat(part).cpu().numpy() for name, part in parts.items()}
    if not (num_texts := len(values.get("entropy", ()))):
        raise ValueError("no text has two tokens, so attention has no choice; give longer texts")
    measured = {name: _distribution(values[name]) for name in DISTRIBUTIONS}
    if words:
        if not values["share"].any():
            raise ValueError(f"no text has one of the {len(words)} listed words; name another list")
        lifts = values["listed"].mean(0) / values["share"].mean()
        hops = [{"mean": lift} for lift in lifts.tolist()]
        measured["lift"] = {"mean": float(lifts.mean()), "hops": hops}
    return {"num_texts": num_texts, "num_left_out": num_left_out, **measured}


def hop_cosine(attention: Tensor) -> Tensor:
    """Return the mean cosine of each hop with the others (B, r), 0 if alone, from A (B, r, T)."""
    directions = F.normalize(attention, dim=-1)
    cosines = directions @ directions.mT  # (B, r, r)
    own = cosines.diagonal(dim1=1, dim2=2)
    return (cosines.sum(-1) - own) / max(1, attention.shape[1] - 1)


def read_word_list(file: FilePath) -> dict[str, float]:
    """Return the words of a file, a line each, with the size of the number behind the first tab.

    A word without a rating has 1. The first line may be a header.
    """
    words: dict[str, float] = {}
    with wrap_read_errors(str(file), endings=("",)):
        for number, line in enumerate(text_lines(str(file)), start=1):
            word, value, *_ = [*line.strip("\r\n").split("\t"), ""]
            try:
                rating = abs(float(value or 1))
            except ValueError:
                rating = 0.0 if number == 1 else math.nan
            if not math.isfinite(rating):
                raise ValueError(f"line {number}: {value!r} is no finite number")
            if word.strip():
                words[word.strip()] = rating
    if not words:
        raise ValueError(f"{file} has no words; give a text file with a word on each line")
    return words


@torch.no_grad()
def _read(dataset: EvaluationDataset, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return attention (B, r, T), real tokens and ids (B, T); B counts both sides of pairs."""
    attention = dataset.model(**batch, output_attentions=True).attentions[0]
    real, ids = batch["attention_mask"] != 0, batch["input_ids"]
    if attention.dim() == 4:  # of pairs, (B / 2, 2, r, T)
        sides = torch.arange(2, device=ids.device).view(1, 2, 1)
        of_side = batch["token_type_ids"].unsqueeze(1) == sides
        real = (real.unsqueeze(1) & of_side).flatten(0, 1)
        ids, attention = ids.repeat_interleave(2, 0), attention.flatten(0, 1)
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
    names = ["mean", *(f"p{level}" for level in QUANTILES)]
    rows = np.vstack([values.mean(0), np.percentile(values, QUANTILES, axis=0)])
    hops = [dict(zip(names, column, strict=True)) for column in rows.T.tolist()]
    return {"mean": float(values.mean()), "hops": hops}
