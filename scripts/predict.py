"""Predict the labels of lines of text, and print them as they come.

    echo "The room was small, but not bad." | python scripts/predict.py runs/quickstart/model
    python scripts/predict.py runs/reviews new.txt > labels.csv
    python scripts/predict.py runs/reviews new.txt --format jsonl > labels.jsonl

Each line of the file, or of the standard input, is a text; for a model of pairs, a tab divides it.
A translation model prints translations. Files with columns are read by train.py --test_file.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from sase_hf.data.labels import SINGLE_LABEL, LabelColumn
from sase_hf.data.rows import ENDINGS, CsvForm, text_lines, wrap_read_errors
from sase_hf.data.splits import TEXT_COLUMNS
from sase_hf.data.tokenizer import truncation
from sase_hf.evaluation.translation import translate
from sase_hf.training.predictions import flat_row, json_line, predicted_labels, write_csv
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_not_stdout
from sase_hf.utils.loading import load_checkpoint


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
            raise ValueError(f"{flags.file} has columns; predict its rows by train.py --test_file")
        check_not_stdout(flags.file)
        model, tokenizer = load_checkpoint(flags.checkpoint)
        if not model.is_head:
            raise ValueError(f"{flags.checkpoint} has no labels; scripts/embed.py embeds texts")
        with wrap_read_errors(flags.file, endings=("",)):
            lines = text_lines(0 if flags.file == "-" else flags.file)
            rows = predict(model, tokenizer, lines, flags.per_device_eval_batch_size)
            try:
                if flags.format == "csv":
                    form = CsvForm(",", "\n", "utf-8", "", None)
                    write_csv(sys.stdout, map(flat_row, rows), form)
                for row in rows:
                    print(json_line(row))
            except BrokenPipeError:  # the reader, such as head, has enough: end as SIGPIPE would
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                sys.exit(141)


@torch.inference_mode()
def predict(model: Any, tokenizer: Any, lines: Iterable[str], size: int) -> Iterator[Any]:
    """Yield the text or texts of each line with the columns of the prediction."""
    names = tuple(name for _, name in sorted((model.config.id2label or {}).items()))
    labels = LabelColumn(model.config.problem_type or SINGLE_LABEL, names)
    options = {"padding": True, "return_tensors": "pt", **truncation(tokenizer, None)}
    num_texts, lines = 1 + model.reads_pairs, iter(lines)
    while some := [line.rstrip("\r\n") for line in islice(lines, size)]:
        texts = [line.split("\t") if model.reads_pairs else [line] for line in some]
        if faults := [row for row in texts if len(row) != num_texts]:
            raise ValueError(f"{faults[0]!r:.80} must be two texts with a tab between: a pair")
        if model.can_generate():
            found = translate(model, tokenizer, some, batch_size=size)
            added: Any = [{"translation": text} for text in found]
        else:
            batch = tokenizer(*map(list, zip(*texts, strict=True)), **options)
            logits, threshold = model(**batch).logits, model.config.answer_threshold
            added = predicted_labels(logits, labels, threshold)
        for row, more in zip(texts, added, strict=True):
            yield dict(zip(TEXT_COLUMNS, row, strict=False)) | more
        sys.stdout.flush()


if __name__ == "__main__":
    main()
