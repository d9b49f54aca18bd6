"""Measure how well the order of doubtful.csv finds wrong labels among the training rows.

    python scripts/lab/wrong_labels.py data --seeds 42 43 44

A set is NAME.train.jsonl.gz in the folder, with the fields `text` and `label`. The seed draws up to
--rows rows and 5 % of them, whose label becomes another one. The rows are in the order of the
probability of their label, by a linear model that learned from other rows, over the mean of the
rows with this label. (The records of other scores are of the commit that they name.)

Metrics: average precision, and the precision among as many rows as have a wrong label. A record is
a line of wrong_labels.jsonl, such as sst2/within_class-seed42.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from records import RECORDS, replace_record, settings_sha
from sklearn.metrics import average_precision_score

from sase_hf import build_tokenizer
from sase_hf.data.table import origin_of, table
from sase_hf.evaluation.doubtful_labels import judge, shares_of_usual
from sase_hf.evaluation.records import measured_record
from sase_hf.models.answers import SingleLabel
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int

SETS = ("sst2", "trec", "yelp5")
SHARE = 0.05
TRUE = "true_label"  # a column beside the labels

Rows = list[dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all sets, and write and print the records."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, help="folder of the sets")
    add("--sets", nargs="+", default=list(SETS), help="names (default: all three)")
    add("--seeds", nargs="+", type=int, default=[42], help="of each set (default: 42)")
    add("--rows", type=positive_int, default=8000, help="drawn of a set (default: %(default)s)")
    add("--records", type=Path, default=RECORDS, help="folder of the JSON Lines files")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        for seed in flags.seeds:
            for name in flags.sets:
                record = measure(name, seed, flags)
                replace_record(flags.records / "wrong_labels.jsonl", record)
                shown = {key: round(value, 3) for key, value in record["metrics"].items()}
                print(record["run"], shown, flush=True)


def measure(name: str, seed: int, flags: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a set."""
    start = time.perf_counter()
    file = flags.data / f"{name}.train.jsonl.gz"
    wrong = flipped_rows(list(table(file)), flags.rows, seed)
    labels = np.unique([str(row["label"]) for row in wrong], return_inverse=True)[1]
    rows = Dataset.from_list(wrong)
    answers = SingleLabel(tuple(map(str, np.unique(labels))))
    ids = build_tokenizer(rows["text"])(rows["text"][:])["input_ids"]
    tokens = Dataset.from_dict({"input_ids": ids, "labels": labels})
    numbers, probabilities = judge(rows, tokens, answers)
    given = np.arange(len(numbers)), labels[numbers]
    shares = shares_of_usual(probabilities, labels[numbers])[given]
    is_wrong = np.array([wrong[number][TRUE] != wrong[number]["label"] for number in numbers])
    settings = {"score": "within_class", "rows": flags.rows, "share": SHARE}
    run_name = f"{name}/within_class-seed{seed}"
    record = measured_record(
        name=run_name,
        metrics=metrics_of(-shares, is_wrong),
        split="train",
        sources={"train": {**origin_of(str(file)), "file": file.name, "rows": len(wrong)}},
        seed=seed,
        arguments=settings,
        config={},
        num_parameters=0,
        wall_seconds=time.perf_counter() - start,
    )
    return {**record, "run": run_name, "settings_sha": settings_sha(settings)}


def flipped_rows(rows: Rows, most: int, seed: int) -> Rows:
    """Return up to `most` rows with text, true label and label, which is another one in `SHARE`."""
    rng = np.random.default_rng(seed)
    drawn = [rows[number] for number in rng.permutation(len(rows))[:most]]
    names = sorted({row["label"] for row in drawn})
    flipped = [{"text": row["text"], "label": row["label"], TRUE: row["label"]} for row in drawn]
    for number in rng.permutation(len(drawn))[: round(SHARE * len(drawn))]:
        others = [name for name in names if name != drawn[number]["label"]]
        flipped[number]["label"] = others[rng.integers(len(others))]
    return flipped


def metrics_of(doubts: np.ndarray, is_wrong: np.ndarray) -> dict[str, float]:
    """Return how well doubts (N,) find wrong rows (N,)."""
    num_wrong = int(is_wrong.sum())
    first = np.argsort(-doubts, kind="stable")[:num_wrong]
    return {
        "average_precision": float(average_precision_score(is_wrong, doubts)),
        "precision_among_as_many": float(is_wrong[first].mean()),
        "wrong_rows": num_wrong,
        "rows": len(is_wrong),
    }


if __name__ == "__main__":
    main()
