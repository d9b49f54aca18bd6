"""Predict the labels of a file, or of lines of text.

    echo "The room was small, but not bad." | sase_hf predict runs/quickstart/model
    sase_hf predict runs/reviews new.csv > labels.csv
    sase_hf predict runs/reviews new.txt --format jsonl > labels.jsonl

A file with columns is printed with them; --text_column_names names the texts where the model was
trained on other columns. Each line of another file, or of the standard input, is a text; for a
model of pairs, a tab divides it. A translation model prints translations.

The model reads on the GPU if there is one; with CUDA_VISIBLE_DEVICES= it stays on the CPU.

`familiarity` is the share of held-out rows that are as far from the training rows as a text. The
last line of the standard error says which share of the texts is unlike them.
"""

import io
import sys
from collections.abc import Sequence
from typing import Any

from ..data.table import ENDINGS, TEXT_COLUMNS, table, texts_of
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser

Rows = Sequence[dict[str, Any]]  # the columns of each

BATCH_SIZE = 32


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each row or line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    source = "with columns, or lines of text (default: -, the standard input)"
    add("file", nargs="?", default="-", help=source)
    add_text_column_names(parser)
    add("--format", choices=("csv", "jsonl"), default="csv", help="(default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        # A fault of the file is named before torch is imported, which takes seconds.
        is_table = flags.file.lower().endswith(ENDINGS)
        lines = table(flags.file) if is_table else lines_of(flags.file)
        from ..data.batching import rows_for_model
        from ..evaluation.predictions import write_rows
        from ..utils.loading import load_checkpoint, to_device

        model, tokenizer = load_checkpoint(flags.checkpoint)
        if not model.is_head:
            raise ValueError(f"{flags.checkpoint} has no labels; sase_hf embed embeds texts")
        to_device(model)
        if is_table:
            read = rows_for_model(flags.checkpoint, model, flags.file, flags.text_column_names, [])
            test = read.splits["test"]
            texts: Rows = texts_of(test)
            rows: Rows = list(read.test_table or ())
        else:
            texts = rows = [row_of(line, reads_pairs=model.reads_pairs) for line in lines]
        answers = predict(model, tokenizer, texts)
        if isinstance(sys.stdout, io.TextIOWrapper):  # what other programs read is UTF-8
            sys.stdout.reconfigure(encoding="utf-8")
        write_rows(sys.stdout, rows, answers, is_table=flags.format == "csv")
        print_unlike(answers)


def lines_of(file: str) -> list[str]:
    """Return the lines of a file, or of the standard input for "-"."""
    with open(0 if file == "-" else file, encoding="utf-8-sig", closefd=file != "-") as lines:
        return [line.removesuffix("\n") for line in lines]


def row_of(line: str, *, reads_pairs: bool) -> dict[str, Any]:
    """Return the text of a line, for a model of pairs the two that a tab divides.

    ValueError: they are not two.
    """
    texts = line.split("\t") if reads_pairs else [line]
    if len(texts) != 1 + reads_pairs:
        raise ValueError(f"{texts!r:.80} must be two texts with a tab between: a pair")
    return dict(zip(TEXT_COLUMNS, texts, strict=False))


def predict(model: Any, tokenizer: Any, texts: Rows) -> Rows:
    """Return the columns of the prediction for each row of one or two texts."""
    from ..evaluation.predictions import predicted_labels, read_texts
    from ..models.answers import answers_of
    from ..utils.loading import attention_pipeline

    if model.can_generate():
        translate = attention_pipeline(model, tokenizer)
        results = translate((row["text"] for row in texts), batch_size=BATCH_SIZE)
        return [{"translation": result["translation_text"]} for result in results]
    read = read_texts(model, tokenizer, texts)
    return predicted_labels(read.logits, answers_of(model.config), read.familiarity)


def print_unlike(answers: Rows) -> None:
    """Say on the standard error how many texts are unlike the training texts, if that is known."""
    from ..visualization.attended_text import UNLIKE

    unlike = [row["familiarity"] < UNLIKE for row in answers if "familiarity" in row]
    if unlike:
        print(
            f"{sum(unlike) / len(unlike):.1%} of {len(unlike):,} texts are unlike the training "
            f"texts (familiarity below {UNLIKE}); "
            f"of held-out ones at most {UNLIKE:.0%} are",
            file=sys.stderr,
        )
