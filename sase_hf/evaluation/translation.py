"""The BLEU of translations, by the length of the source, and the shape of the alignment."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, TokenizersBackend
from transformers.utils import logging

from ..data.splits import TRANSLATION
from .metrics import load_metrics

BIN_OF_WORDS = 5
JOINED = (2, 3, 4)  # neighbouring pairs that are joined to long ones


def measure_translation(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int,
    num_beams: Sequence[int] = (1, 12),
) -> dict[str, Any]:
    """Measure a translation model as Table 1 and Figure 2 of the paper do.

    Returns:
        `bleu` by the number of beams; `bleu_no_unk`, the same for the `pairs_no_unk` pairs without
        unknown words, in whose translations none may occur; `by_length`, for sources of 1 to 5, 6
        to 10 ... words the BLEU of sentences and of joined neighbouring sentences with the last
        number of beams; and with attention `alignment`, as `alignment_statistics` returns it.
    """

    def write(texts: Sequence[str], beams: int, **options: Any) -> list[str]:
        options |= {"batch_size": batch_size, "num_beams": beams}
        return translate(model, tokenizer, texts, **options)

    unknown = tokenizer.unk_token_id
    known = [
        pair
        for pair in zip(sources, references, strict=True)
        if not any(unknown in tokenizer(text).input_ids for text in pair)
    ]
    translated = {beams: write(sources, beams) for beams in num_beams}
    measured: dict[str, Any] = {
        "bleu": {str(beams): bleu(texts, references) for beams, texts in translated.items()},
        "bleu_no_unk": {},
        "pairs_no_unk": len(known),
    }
    if known:
        known_sources, known_references = ([pair[side] for pair in known] for side in (0, 1))
        for beams in num_beams:
            only = write(known_sources, beams, suppress_tokens=[unknown])
            measured["bleu_no_unk"][str(beams)] = bleu(only, known_references)
    long_sources, long_references = (_joined(texts) for texts in (sources, references))
    last = num_beams[-1]
    rows = [*zip(sources, translated[last], references, strict=True)]
    rows += zip(long_sources, write(long_sources, last), long_references, strict=True)
    measured["by_length"] = bleu_by_length(rows, len(sources))
    if model.config.has_attention:
        measured["alignment"] = alignment_statistics(
            model, tokenizer, sources, references, batch_size=batch_size
        )
    return measured


def bleu_by_length(rows: Sequence[tuple[str, str, str]], num_pairs: int) -> list[dict[str, Any]]:
    """Return the BLEU of rows (source, translation, reference) in bins by the words of the source.

    The first `num_pairs` rows are pairs, the others joined ones.
    """
    bins: dict[int, list[int]] = {}
    for number, (source, _, _) in enumerate(rows):
        bins.setdefault((len(source.split()) - 1) // BIN_OF_WORDS, []).append(number)
    return [
        {
            "words": [place * BIN_OF_WORDS + 1, (place + 1) * BIN_OF_WORDS],
            "pairs": len(numbers),
            "joined": sum(number >= num_pairs for number in numbers),
            "bleu": bleu([rows[n][1] for n in numbers], [rows[n][2] for n in numbers]),
        }
        for place, numbers in sorted(bins.items())
    ]


def translate(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    *,
    batch_size: int,
    **options: Any,
) -> list[str]:
    """Translate texts, the longest first; `options` go to `generate`."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    found = [""] * len(sources)
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Translating", delay=1):
        rows = order[start : start + batch_size]
        batch = tokenizer([sources[row] for row in rows], padding=True, return_tensors="pt")
        batch = batch.to(model.device)
        longest = 2 * batch["input_ids"].shape[1] + 20
        limits = {"max_new_tokens": longest, "max_length": None}  # a checkpoint may set the latter
        words = model.generate(**batch, **{**limits, **options})
        texts = tokenizer.batch_decode(words, skip_special_tokens=True)
        for row, text in zip(rows, texts, strict=True):
            found[row] = text
    return found


def bleu(translated: Sequence[str], references: Sequence[str]) -> float:
    """Return the BLEU of a corpus, from 0 to 100."""
    (metric,) = load_metrics(None, TRANSLATION)
    return float(metric.compute(predictions=translated, references=references)["bleu"])


@torch.no_grad()
def alignment_statistics(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int,
) -> dict[str, float]:
    """Describe the alignment of references to their sources.

    Returns:
        `entropy`: the mean over target words of the entropy of alpha, over that of an even alpha.
        `monotonic`: the share of the steps from one target word to the next at which the strongest
        source word does not move back.
    """
    collate = DataCollatorForSeq2Seq(tokenizer)
    entropies, steps = [], []
    for start in range(0, len(sources), batch_size):
        rows = slice(start, start + batch_size)
        encoded = tokenizer(list(sources[rows]), text_target=list(references[rows]))
        batch = collate(Dataset.from_dict(dict(encoded)).to_list())
        batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
        (alpha,) = model(**batch, output_attentions=True).cross_attentions
        for row, (weights, labels) in enumerate(zip(alpha[:, 0], batch["labels"], strict=True)):
            tokens = int(batch["attention_mask"][row].sum())
            own = weights[labels >= 0]  # (L, T)
            if tokens > 1:
                entropies.append(torch.special.entr(own).sum(-1) / math.log(tokens))
            steps.append(own.argmax(-1).diff() >= 0)
    return {
        "entropy": torch.cat(entropies).mean().item(),
        "monotonic": torch.cat(steps).float().mean().item(),
    }


def _joined(texts: Sequence[str]) -> list[str]:
    """Join neighbouring texts by twos, threes and fours; the rest at the end is left out."""
    return [
        " ".join(texts[start : start + count])
        for count in JOINED
        for start in range(0, len(texts) - count + 1, count)
    ]


__all__ = ["alignment_statistics", "bleu", "bleu_by_length", "measure_translation", "translate"]
