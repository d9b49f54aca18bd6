"""How good translations are, by the length of the source, and what the alignment looks like."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, TokenizersBackend
from transformers.utils import logging

from ..data.pairs import TRANSLATION
from .records import load_metrics

BIN_OF_WORDS = 5
JOINED = (2, 3, 4)  # pairs that are joined to make long ones


def measure_translation(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int,
    num_beams: Sequence[int] = (1, 12),
) -> dict[str, Any]:
    """Measure a translation model as Tables 1 and Figure 2 of the paper do.

    Args:
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        sources: Texts to translate.
        references: Their translations.
        batch_size: Sentences in a batch.
        num_beams: Beam sizes; the last one is that of the results by length.

    Returns:
        `bleu` by the number of beams; `bleu_no_unk`, the same for the `pairs_no_unk` pairs without
        unknown words, where none may be written either; `by_length`, for sources of 1 to 5, 6 to 10
        ... words the BLEU of sentences and of neighbouring sentences that were joined, with their
        number; and with attention `alignment`, as `alignment_statistics` returns it.
    """
    unknown = tokenizer.unk_token_id
    known = [
        unknown not in tokenizer(source).input_ids + tokenizer(reference).input_ids
        for source, reference in zip(sources, references, strict=True)
    ]
    known_sources = [text for text, is_known in zip(sources, known, strict=True) if is_known]
    known_references = [text for text, is_known in zip(references, known, strict=True) if is_known]
    measured: dict[str, Any] = {"bleu": {}, "bleu_no_unk": {}, "pairs_no_unk": sum(known)}
    for beams in num_beams:
        options: dict[str, Any] = {"batch_size": batch_size, "num_beams": beams}
        translated = translate(model, tokenizer, sources, **options)
        measured["bleu"][str(beams)] = bleu(translated, references)
        if known_sources:
            only = translate(model, tokenizer, known_sources, suppress_tokens=[unknown], **options)
            measured["bleu_no_unk"][str(beams)] = bleu(only, known_references)
    rows = list(zip(sources, translated, references, [False] * len(sources), strict=True))
    joined = [(_join(sources, n), _join(references, n)) for n in JOINED]
    long_sources = [text for texts, _ in joined for text in texts]
    long_references = [text for _, texts in joined for text in texts]
    translated = translate(model, tokenizer, long_sources, **options)
    rows += zip(long_sources, translated, long_references, [True] * len(translated), strict=True)
    bins: dict[int, list[tuple[str, str, str, bool]]] = {}
    for row in rows:
        bins.setdefault((len(row[0].split()) - 1) // BIN_OF_WORDS, []).append(row)
    measured["by_length"] = [
        {
            "words": [place * BIN_OF_WORDS + 1, (place + 1) * BIN_OF_WORDS],
            "pairs": len(own),
            "joined": sum(is_joined for *_, is_joined in own),
            "bleu": bleu([row[1] for row in own], [row[2] for row in own]),
        }
        for place, own in sorted(bins.items())
    ]
    if model.config.has_attention:
        measured["alignment"] = alignment_statistics(
            model, tokenizer, sources, references, batch_size=batch_size
        )
    return measured


def translate(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    *,
    batch_size: int,
    **options: Any,
) -> list[str]:
    """Translate texts, the longest first; `options` are those of `generate`."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    found = [""] * len(sources)
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Translating", delay=1):
        rows = order[start : start + batch_size]
        batch = tokenizer([sources[row] for row in rows], padding=True, return_tensors="pt")
        batch = batch.to(model.device)
        longest = 2 * batch["input_ids"].shape[1] + 20
        limits = {"max_new_tokens": longest, "max_length": None}  # the latter of a checkpoint
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
        `entropy`: the mean over target words of the entropy of alpha, as a share of that of an even
        alpha. `monotonic`: the share of the steps from one target word to the next at which the
        strongest source word does not move back.
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


def _join(texts: Sequence[str], count: int) -> list[str]:
    """Join each `count` neighbours to one text; those left at the end are left out."""
    starts = range(0, len(texts) - count + 1, count)
    return [" ".join(texts[start : start + count]) for start in starts]
