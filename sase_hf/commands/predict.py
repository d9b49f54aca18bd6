"""Predict the labels of a file, or of lines of text.

    echo "The room was small, but not bad." | sase_hf predict runs/quickstart/model
    sase_hf predict runs/reviews new.csv > labels.csv
    sase_hf predict runs/reviews new.txt --format jsonl > labels.jsonl

A file with columns is printed with them; --text_column_names names the texts where the model was
trained on other columns. Each line of another file, or of the standard input, is a text; for a
model of pairs, a tab divides it. A translation model prints translations.
--per_device_eval_batch_size 32 is the most rows that are read and printed at once.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from transformers import TokenizersBackend
from transformers.utils import logging

from ..data.batching import rows_for_model
from ..data.rows import Rows
from ..data.table import ENDINGS, TEXT_COLUMNS, present
from ..models.answers import answers_of
from ..models.checked_model import CheckedPreTrainedModel, Encoded, encode_read
from ..tasks.labels.predictions import batch_logits, predicted_labels
from ..training.predictions import flat_row, json_line, with_columns, write_csv
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from ..utils.errors import refusal
from ..utils.files import check_not_stdout, check_readable
from ..utils.loading import load_checkpoint
from ..utils.translate import translate

logger = logging.get_logger(__name__)

Columns = dict[str, Any]
Row = tuple[list[str], Columns]  # the texts of a row, and what is printed of it


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each row or line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    source = "with columns, or lines of text (default: -, the standard input)"
    add("file", nargs="?", default="-", help=source)
    add_text_column_names(parser)
    add("--format", choices=("csv", "jsonl"), default="csv", help="(default: %(default)s)")
    size = "rows that are read and printed at once (default: %(default)s)"
    add("--per_device_eval_batch_size", type=positive_int, default=32, help=size)
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.file != "-":
            check_readable(flags.file)
        check_not_stdout(flags.file)
        model, tokenizer = load_checkpoint(flags.checkpoint)
        if not model.is_head:
            raise ValueError(f"{flags.checkpoint} has no labels; sase_hf embed embeds texts")
        if isinstance(sys.stdout, io.TextIOWrapper):  # what other programs read is UTF-8
            sys.stdout.reconfigure(encoding="utf-8")
        if flags.file.lower().endswith(ENDINGS):
            read = rows_for_model(flags.checkpoint, model, flags.file, flags.text_column_names, "")
            rows = rows_of_table(read)
        else:
            rows = rows_of_lines(read_lines(flags.file), model)
        predicted = predict(model, tokenizer, batches(rows, flags.per_device_eval_batch_size))
        try:
            if flags.format == "jsonl":
                for row, answer in predicted:
                    print(json_line(with_columns(row, answer)))
            else:
                cells = (map(flat_row, pair) for pair in predicted)
                write_csv(sys.stdout, (with_columns(*pair) for pair in cells))
        except BrokenPipeError:  # the reader, such as head, has enough: end as SIGPIPE would
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)


def read_lines(file: str) -> Iterator[str]:
    """Yield the lines of a text file, or of the standard input, without their ends."""
    is_input = file == "-"
    with open(0 if is_input else file, encoding="utf-8-sig", closefd=not is_input) as lines:
        try:
            for line in lines:
                yield line.removesuffix("\n")
        except UnicodeDecodeError as reason:
            raise refusal(f"cannot read {file!r}: {reason}", "save it as UTF-8") from reason


def rows_of_lines(lines: Iterable[str], model: CheckedPreTrainedModel) -> Iterator[Row]:
    """Yield the text of each line or, for a model of pairs, the two that a tab divides."""
    for line in lines:
        texts = line.split("\t") if model.reads_pairs else [line]
        if len(texts) != 1 + model.reads_pairs:
            raise ValueError(f"{texts!r:.80} must be two texts with a tab between: a pair")
        yield texts, dict(zip(TEXT_COLUMNS, texts, strict=False))


def rows_of_table(read: Rows) -> Iterator[Row]:
    """Yield the texts of each row of a file, and its columns."""
    texts = read.splits["test"].select_columns(present(TEXT_COLUMNS, read.splits["test"]))
    assert read.test_table is not None
    for row, columns in zip(texts, read.test_table, strict=True):
        yield [*row.values()], columns


def batches(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    """Yield `size` rows at once, and what is left at the end."""
    while part := list(islice(rows, size)):
        yield part


@torch.inference_mode()
def predict(
    model: CheckedPreTrainedModel, tokenizer: TokenizersBackend, parts: Iterable[list[Row]]
) -> Iterator[tuple[Columns, Columns]]:
    """Yield the columns of each row, and those of the prediction.

    `truncated` counts the tokens after the limit of the training, which the model does not read.
    """
    for rows in parts:
        encodings = []
        nums_cut = []
        for texts, _ in rows:
            encoding, counts = encode_read(model, tokenizer, texts)
            encodings.append(encoding)
            nums_cut.append(sum(counts))
            if not any(map(str.strip, texts)):
                logger.warning_once("A line is empty: its answer rests on no word.")
        if model.can_generate():
            sources = [texts[0] for texts, _ in rows]
            translations = translate(model, tokenizer, sources, batch_size=len(rows))
            answers: list[Columns] = [{"translation": text} for text in translations]
        else:
            answers = classify(model, tokenizer, encodings)
        for (_, columns), answer, num_cut in zip(rows, answers, nums_cut, strict=True):
            yield columns, {**answer, "truncated": num_cut}
        sys.stdout.flush()


def classify(
    model: CheckedPreTrainedModel, tokenizer: TokenizersBackend, encodings: list[Encoded]
) -> list[Columns]:
    """Return the columns of the prediction for each tokenized row."""
    return predicted_labels(batch_logits(model, tokenizer, encodings), answers_of(model.config))
