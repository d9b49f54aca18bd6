"""The BLEU of translations, by the length of the source, and the shape of the alignment."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq

from sase_hf.data.splits import TRANSLATION
from sase_hf.evaluation.metrics import load_metrics
from sase_hf.evaluation.translation import translate

BIN_OF_WORDS = 5
JOINED = (2, 3, 4)  # neighbouring pairs that are joined to long ones
Pairs = Sequence[Sequence[str]]  # a source and a reference each


def measure_pairs(
    model: Any, tokenizer: Any, pairs: Pairs, *, batch_size: int, num_beams: Sequence[int]
) -> dict[str, Any]:
    """Measure a translation model as Table 1 and Figure 2 of the paper do.

    Returns:
        `bleu` by the number of beams; `bleu_no_unk`, the same for the `pairs_no_unk` pairs without
        unknown words, translated without unknown words; `by_length`, for sources of 1 to 5, 6 to 10
        ... words the BLEU of sentences and of joined neighbouring sentences with the last number of
        beams; and with attention `alignment`, as `alignment_statistics` returns it.
    """

    def write(pairs: Pairs, beams: int, **options: Any) -> list[str]:
        options |= {"batch_size": batch_size, "num_beams": beams}
        return translate(model, tokenizer, [source for source, _ in pairs], **options)

    unknown = tokenizer.unk_token_id
    known = [p for p in pairs if not any(unknown in tokenizer(text).input_ids for text in p)]
    joined = [
        tuple(map(" ".join, zip(*pairs[start : start + count], strict=True)))
        for count in JOINED
        for start in range(0, len(pairs) - count + 1, count)
    ]
    measured: dict[str, Any] = {"bleu": {}, "bleu_no_unk": {}, "pairs_no_unk": len(known)}
    for beams in num_beams:
        texts = write(pairs, beams)
        measured["bleu"][str(beams)] = bleu(texts, pairs)
    for beams in num_beams if known else ():
        only = write(known, beams, suppress_tokens=[unknown])
        measured["bleu_no_unk"][str(beams)] = bleu(only, known)
    texts += write(joined, num_beams[-1])
    measured["by_length"] = bleu_by_length([*pairs, *joined], texts, len(pairs))
    if model.config.has_attention:
        measured["alignment"] = alignment_statistics(model, tokenizer, pairs, batch_size)
    return measured


def bleu(translated: Sequence[str], pairs: Pairs) -> float:
    """Return the BLEU of a corpus, from 0 to 100."""
    (metric,) = load_metrics(None, TRANSLATION)
    references = [reference for _, reference in pairs]
    return float(metric.compute(predictions=translated, references=references)["bleu"])


def bleu_by_length(pairs: Pairs, texts: Sequence[str], num_pairs: int) -> list[dict[str, Any]]:
    """Return the BLEU of translations in bins by the words of the source.

    The pairs after the first `num_pairs` are joined ones.
    """
    bins: dict[int, list[int]] = {}
    for number, (source, _) in enumerate(pairs):
        bins.setdefault((len(source.split()) - 1) // BIN_OF_WORDS, []).append(number)
    return [
        {
            "words": [place * BIN_OF_WORDS + 1, (place + 1) * BIN_OF_WORDS],
            "pairs": len(numbers),
            "joined": sum(number >= num_pairs for number in numbers),
            "bleu": bleu([texts[n] for n in numbers], [pairs[n] for n in numbers]),
        }
        for place, numbers in sorted(bins.items())
    ]


@torch.no_grad()
def alignment_statistics(
    model: Any, tokenizer: Any, pairs: Pairs, batch_size: int
) -> dict[str, float]:
    """Describe the alignment of references to their sources.

    Returns:
        `entropy`: the mean over target words of the entropy of alpha, over that of an even alpha.
        `monotonic`: the share of the steps from one target word to the next at which the strongest
        source word does not move back.
    """
    collate = DataCollatorForSeq2Seq(tokenizer)
    entropies, steps = [], []
    for start in range(0, len(pairs), batch_size):
        sources, references = map(list, zip(*pairs[start : start + batch_size], strict=True))
        encoded = tokenizer(sources, text_target=references)
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
