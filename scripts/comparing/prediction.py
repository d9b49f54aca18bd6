"""How fast a trained model predicts: tokenizing and the forward pass, on one thread.

    python -m comparing.prediction MODEL FILE COLUMN...

It writes timing.json into MODEL. scripts/train.py measures neither the tokenizing nor the
processor's time, which another process on the machine does not change.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from comparing.baselines import processor_seconds
from sase_hf.data.arguments import DataArguments
from sase_hf.data.splits import load_task
from sase_hf.data.tokens import encode_task
from sase_hf.evaluation.dataset import EvaluationDataset
from sase_hf.utils.loading import load_checkpoint

BATCH_SIZE = 64  # that of scripts/train.py


def main(checkpoint: Path, file: str, columns: Sequence[str]) -> None:
    """Predict the rows of a file and write the timing."""
    model, tokenizer = load_checkpoint(str(checkpoint))
    labels = [name for _, name in sorted(model.config.id2label.items())]
    task = load_task(
        DataArguments(test_file=file, text_column_names=list(columns), label_names=labels)
    )
    start = processor_seconds()
    rows = encode_task(task, tokenizer)["test"].remove_columns("labels")
    sample = EvaluationDataset(model, tokenizer, rows, task.sources)
    with torch.inference_mode():
        for _, batch in sample.batches(BATCH_SIZE, "Predicting"):
            model(**batch).logits.softmax(-1)
    timing = {
        "prediction_seconds": processor_seconds() - start,
        "num_parameters": model.num_parameters(),
        "config": model.config.to_diff_dict(),
    }
    (checkpoint / "timing.json").write_text(json.dumps(timing), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
