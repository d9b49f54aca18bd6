"""What a model says of texts, its columns, and the file of rows that they are added to."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]
from torch import Tensor
from torch.utils._pytree import tree_map_only
from transformers import TokenizersBackend

from ..data.batching import batches_by_length
from ..data.rows import Rows
from ..data.table import SHEET_ENDINGS
from ..models.answers import Answers, Scores, answers_of
from ..models.checkpoint import encode_read
from ..utils.files import atomic_write
from ..utils.neighbours import unknown_shares

Row = Mapping[str, Any]

SECONDS_WITHOUT_BAR = 2
BATCH_CHARACTERS = 2**15  # of the texts that are read at once
LEAST_CHARACTERS = 64  # that a text counts as: each has a sentence matrix, however short it is


def predicted_labels(
    logits: Tensor, answers: Answers, familiarity: Tensor | None = None
) -> list[dict[str, Any]]:
    """Return the columns of predictions for rows with these logits (B, C) and `familiarity` (B,).

    One label: `predicted_label`, `confidence` (its probability), the probability of every label in
    `scores`, and with a threshold `answer_set`, the labels that may be right. Several labels:
    `predicted_labels` and `scores`. Numbers: `predicted_` and the name of each. Then `familiarity`
    if it is known. Shares have four digits.
    """
    columns = [_columns(scores, answers) for scores in answers.scores(logits.float()).tolist()]
    if answers.has_labels:
        columns = tree_map_only(float, lambda share: round(share, 4), columns)
    if familiarity is not None:
        for row, share in zip(columns, familiarity.tolist(), strict=True):
            row["familiarity"] = round(share, 4)
    return columns


def _columns(scores: Scores, answers: Answers) -> dict[str, Any]:
    """Return the columns of one text with C scores."""
    by_name = answers.by_name(scores)
    if not answers.has_labels:
        return {f"predicted_{name}": score for name, score in by_name.items()}
    result = answers.result(scores)
    if not answers.has_one_label:
        return {"predicted_labels": result["labels"], "scores": by_name}
    columns = {"predicted_label": result["label"], "confidence": result["score"]}
    return columns | {"scores": by_name} | answers.answer_set(scores)


class Reading(NamedTuple):
    """What a model says of N texts or pairs."""

    logits: Tensor  # (N, C)
    familiarity: Tensor | None  # as that of `Neighbours`, (N,); None if the model has none


@torch.inference_mode()
def read_texts(
    model: Any,
    tokenizer: TokenizersBackend,
    rows: Sequence[Row],
) -> Reading:
    """Read N rows, each a `text`, or for a pair with a `text_pair` after it.

    A bar appears where it takes longer than `SECONDS_WITHOUT_BAR`.
    """
    # Like lengths share a batch; the longest first: memory runs out in this batch or never.
    lengths = [max(sum(map(len, texts.values())), LEAST_CHARACTERS) for texts in rows]
    batches = list(batches_by_length(lengths, BATCH_CHARACTERS))
    logits = torch.zeros(len(rows), len(answers_of(model.config).names))
    neighbours: Any = getattr(model, "neighbours", None)
    familiarity = None if neighbours is None else torch.zeros(len(rows))
    for places in tqdm(batches, "Predicting", delay=SECONDS_WITHOUT_BAR):
        encodings = [encode_read(model, tokenizer, [*rows[row].values()])[0] for row in places]
        padded = tokenizer.pad(encodings, return_tensors="pt")
        # Rows without a token come back as floats.
        batch = {name: tensor.long().to(model.device) for name, tensor in padded.items()}
        outputs = model(**batch)
        logits[places] = outputs.logits.float().cpu()
        if familiarity is not None:
            distances = neighbours.distances(outputs.sentence_embedding)
            ids = [encoded["input_ids"] for encoded in encodings]
            unknown = unknown_shares(ids, tokenizer.unk_token_id)
            familiarity[places] = neighbours.familiarity(distances, unknown)
    return Reading(logits, familiarity)


# ---- the rows that were predicted, with more columns ---------------------------------------------


def write_predictions(
    added: Sequence[Row], rows: Rows, source: str | None, output_dir: str
) -> Path:
    """Write the test rows, with all columns of their source and the added ones; return the file.

    Those of a sheet or a Parquet file become `predictions.csv`, all others `predictions.jsonl`.
    """
    is_table = source is not None and source.lower().endswith((*SHEET_ENDINGS, ".parquet"))
    target = Path(output_dir, "predictions.csv" if is_table else "predictions.jsonl")
    with atomic_write(target) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, rows.test_table or (), added, is_table=is_table)
    return target


def write_rows(file: TextIO, rows: Iterable[Row], added: Iterable[Row], *, is_table: bool) -> None:
    """Write rows with more columns, as JSON Lines or as CSV.

    In CSV lists and dicts are JSON texts, and each label has a column of scores.
    """
    if is_table:
        answers = (flat_row(row, parts=True) for row in added)
        write_csv(file, map(with_columns, map(flat_row, rows), answers))
    else:
        file.writelines(f"{json_line(row)}\n" for row in map(with_columns, rows, added))


def flat_row(row: Row, *, parts: bool = False) -> dict[str, Any]:
    """Return the row of a table, with lists and dicts as JSON texts, or dicts in their parts."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if parts and isinstance(value, dict):
            cells |= {f"{name}_{key}": entry for key, entry in value.items()}
        else:
            cells[name] = json_line(value) if isinstance(value, list | dict) else value
    return cells


def with_columns(row: Row, added: Row) -> dict[str, Any]:
    """Return a row with more columns; underscores follow a name that is taken."""
    joined = dict(row)
    for name, value in added.items():
        while name in joined:
            name += "_"
        joined[name] = value
    return joined


def write_csv(file: TextIO, rows: Iterator[Row]) -> None:
    """Write rows below a line of their names; texts are quoted, as they may hold line ends."""
    first = next(rows, {})
    writer = csv.DictWriter(file, first, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(filter(None, chain([first], rows)))


def json_line(value: object) -> str:
    """Return a value as JSON; what JSON lacks, such as times, as text."""
    return json.dumps(value, ensure_ascii=False, default=str)
