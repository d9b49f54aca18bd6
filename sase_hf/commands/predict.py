"""Predict the labels of lines of text.

    echo "The room was small, but not bad." | sase_hf predict runs/quickstart/model
    sase_hf predict runs/reviews new.txt > labels.csv
    sase_hf predict runs/reviews new.txt --format jsonl > labels.jsonl

Each line of the file, or of the standard input, is a text; for a model of pairs, a tab divides it.
A translation model prints translations. --per_device_eval_batch_size 32 is the most lines that
are read and printed at once. `sase_hf train --test_file` reads files with columns.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from transformers import TokenizersBackend
from transformers.utils import logging

from ..data.table import ENDINGS, TEXT_COLUMNS
from ..models.answers import answers_of
from ..models.checked_model import CheckedPreTrainedModel, Encoded, encode_read
from ..tasks.labels.predictions import batch_logits, predicted_labels
from ..training.predictions import flat_row, json_line, write_csv
from ..utils.cli import errors_in_one_line, make_parser, positive_int
from ..utils.errors import refusal
from ..utils.files import check_not_stdout, check_readable
from ..utils.loading import load_checkpoint
from ..utils.translate import translate

logger = logging.get_logger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("file", nargs="?", default="-", help="a text file (default: -, the standard input)")
    add("--format", choices=("csv", "jsonl"), default="csv", help="(default: %(default)s)")
    size = "lines that are read and printed at once (default: %(default)s)"
    add("--per_device_eval_batch_size", type=positive_int, default=32, help=size)
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.file.lower().endswith(ENDINGS):
            raise ValueError(
                f"{flags.file} has columns; predict its rows by sase_hf train --test_file"
            )
        if flags.file != "-":
            check_readable(flags.file)
        check_not_stdout(flags.file)
        model, tokenizer = load_checkpoint(flags.checkpoint)
        if not model.is_head:
            raise ValueError(f"{flags.checkpoint} has no labels; sase_hf embed embeds texts")
        if isinstance(sys.stdout, io.TextIOWrapper):  # what other programs read is UTF-8
            sys.stdout.reconfigure(encoding="utf-8")
        parts = batches(read_lines(flags.file), flags.per_device_eval_batch_size)
        rows = predict(model, tokenizer, parts)
        try:
            if flags.format == "jsonl":
                for row in rows:
                    print(json_line(row))
            else:
                write_csv(sys.stdout, map(flat_row, rows))
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


def batches(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Yield `size` lines at once, and what is left at the end."""
    while part := list(islice(lines, size)):
        yield part


@torch.inference_mode()
def predict(
    model: CheckedPreTrainedModel, tokenizer: TokenizersBackend, parts: Iterable[list[str]]
) -> Iterator[dict[str, object]]:
    """Yield the text or texts of each line with the columns of the prediction.

    `truncated` counts the tokens after the limit of the training, which the model does not read.
    """
    for lines in parts:
        rows = [texts_of(line, model) for line in lines]
        encodings = []
        nums_cut = []
        for texts in rows:
            encoding, counts = encode_read(model, tokenizer, texts)
            encodings.append(encoding)
            nums_cut.append(sum(counts))
            if not any(map(str.strip, texts)):
                logger.warning_once("A line is empty: its answer rests on no word.")
        if model.can_generate():
            translations = translate(model, tokenizer, lines, batch_size=len(lines))
            answers: list[dict[str, object]] = [{"translation": text} for text in translations]
        else:
            answers = classify(model, tokenizer, encodings)
        for texts, answer, num_cut in zip(rows, answers, nums_cut, strict=True):
            yield {
                **dict(zip(TEXT_COLUMNS, texts, strict=False)),
                **answer,
                "truncated": num_cut,
            }
        sys.stdout.flush()


def texts_of(line: str, model: CheckedPreTrainedModel) -> list[str]:
    """Return the text of a line, or the two that a tab divides, for a model of pairs."""
    if not model.reads_pairs:
        return [line]
    texts = line.split("\t")
    if len(texts) != 2:
        raise ValueError(f"{texts!r:.80} must be two texts with a tab between: a pair")
    return texts


def classify(
    model: CheckedPreTrainedModel, tokenizer: TokenizersBackend, encodings: list[Encoded]
) -> list[dict[str, object]]:
    """Return the columns of the prediction for each tokenized row."""
    return predicted_labels(batch_logits(model, tokenizer, encodings), answers_of(model.config))
