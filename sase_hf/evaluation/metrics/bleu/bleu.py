"""BLEU of a corpus by sacrebleu: cased, tokenised as 13a, from 0 to 100.

Predictions and references are plain texts, not tokens; one reference for each.
"""

import datasets
import evaluate
from sacrebleu.metrics.bleu import BLEU


class Bleu(evaluate.Metric):  # type: ignore[misc]
    """BLEU of a corpus."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("string")
        features = datasets.Features(predictions=value, references=value)
        return evaluate.MetricInfo(description=__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {"bleu": float(BLEU().corpus_score(predictions, [references]).score)}
