"""Show why a checkpoint answers so: in the terminal, as a page for the browser, or as an SVG.

    sase_hf visualize runs/quickstart/model --text "The room was small, but not bad."
    sase_hf visualize runs/mine --compare runs/other --file dev.csv --output both.html
    sase_hf visualize runs/translation/bpe --text "A dog runs." --output alignment.html

A pair is --text and --text_pair. --text_column_names and --label_column_name name columns of
--file; --per_label changes the choice of rows. --target explains another label than the predicted
one.

With --file, up to 1000 rows are read. A page first says what the model learned from them: the words
that spoke for each label and against it, and what each hop reads. Then five rows of each predicted
label are shown, drawn among those with a score of 0.8 or more, as in the paper's Figure 2, or
mistakes with `--select wrong`. With --compare it shows the rows alone. An .svg shows one text or
pair.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Pipeline

from .. import visualization
from ..data.batching import rows_for_model
from ..models import TRANSLATION_TASK
from ..models.answers import answers_of
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from ..utils.errors import refusal
from ..utils.files import check_output, write_text
from ..utils.loading import load_pipeline, name_checkpoints
from ..visualization.attended_text import Result
from ..visualization.selection import SELECT

ENDINGS = (".html", ".htm", ".svg")
BATCH_SIZE = 32
MAX_ROWS = 1_000  # of a file; results have about a kilobyte for each token

Readers = dict[str, Pipeline]  # by the name of the checkpoint
Row = tuple[Any, dict[str, object]]  # an input of the pipeline; its `true_label` if there is one


def main(argv: Sequence[str] | None = None) -> None:
    """Read the texts with each checkpoint, and print or write what is shown of them."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--compare", action="append", default=[], metavar="CHECKPOINT", help="another; repeatable")
    given = parser.add_mutually_exclusive_group(required=True).add_argument
    given("--text", action="append", help="a text; repeatable")
    given("--file", help="rows: CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet")
    add("--text_pair", action="append", help="the second text of a pair, one for each --text")
    add_text_column_names(parser)
    add("--label_column_name", help="of labels, may be missing (default: found by name)")
    add("--select", choices=SELECT, default=SELECT[0], help="which rows (default: %(default)s)")
    add("--per_label", type=positive_int, default=5, help="rows per label (default: %(default)s)")
    add("--target", metavar="LABEL", help="the label to explain (default: the predicted one)")
    add("--output", type=Path, help="a file: .html or .svg (default: the terminal)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        ending = check(flags)
        named = name_checkpoints([flags.checkpoint, *flags.compare])
        readers = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
        translates = any(reader.task == TRANSLATION_TASK for reader in readers.values())
        show = show_alignment if translates else show_reasons
        shown = show(readers, flags, ending)
        if not ending:
            print(shown)
            return
        write_text(flags.output, shown)
        print(flags.output)


def check(flags: Namespace) -> str:
    """Return the ending of the output, "" for the terminal; refuse flags that contradict."""
    ending = "" if flags.output is None else flags.output.suffix.lower()
    num_texts = len(flags.text or [])
    num_pairs = len(flags.text_pair or [])
    if num_pairs not in (0, num_texts):
        raise ValueError(f"{num_pairs} --text_pair for {num_texts} --text; give one for each")
    check_output(flags.output, [flags.file, flags.checkpoint, *flags.compare])
    if flags.output is not None and ending not in ENDINGS:
        raise ValueError(f"--output {flags.output} must end in one of {', '.join(ENDINGS)}")
    if ending == ".svg" and (num_texts != 1 or flags.compare):
        raise refusal(
            f"{flags.output} shows one text of one checkpoint",
            "give one --text and no --compare, or an --output that ends in .html",
        )
    return ending


def show_alignment(readers: Readers, flags: Namespace, ending: str) -> str:
    """Translate the texts; return the alignments as a page, an SVG or text for the terminal."""
    if len(readers) > 1 or flags.text is None or flags.text_pair or flags.target:
        raise refusal(
            "alignments are shown of one checkpoint and its --text",
            "leave out --compare, --file, --text_pair and --target",
        )
    [translate] = readers.values()
    results = translate(flags.text, batch_size=BATCH_SIZE)
    if ending == ".svg":
        return visualization.attention_svg(results[0])
    if ending:
        return visualization.alignment_html(results, title_of(readers))
    return "\n\n".join(map(visualization.alignment_text, results))


def show_reasons(readers: Readers, flags: Namespace, ending: str) -> str:
    """Read the texts with each checkpoint; return why as `show_alignment` does."""
    check_labels(readers)
    reader = next(iter(readers.values()))
    learned = None
    if flags.file is None:
        texts = flags.text
        if flags.text_pair is not None:
            pairs = zip(flags.text, flags.text_pair, strict=True)
            texts = [{"text": text, "text_pair": pair} for text, pair in pairs]
        rows: list[Row] = [(text, {}) for text in texts]
    else:
        rows = file_rows(reader, flags)
        results = read_rows(reader, rows)
        if ending and len(readers) == 1 and hasattr(reader.model, "classify"):
            learned = visualization.read_learned_words(reader, [text for text, _ in rows])
        drawn = visualization.select_predictions(results, flags.select, flags.per_label)
        rows = [rows[place] for place in drawn]
    shown = {name: read_rows(one, rows, flags.target) for name, one in readers.items()}
    if len(readers) > 1 and ending:
        return visualization.comparison_html(shown, title_of(readers))
    [first, *_] = shown.values()
    if ending == ".svg":
        return visualization.attention_svg(first[0])
    if ending:
        return visualization.attention_html(first, title_of(readers), learned)
    return visualization.comparison_text(shown if len(readers) > 1 else {"": first})


def title_of(readers: Readers) -> str:
    """Return the heading of a page: the names of the checkpoints."""
    return " and ".join(readers)


def read_rows(reader: Pipeline, rows: Sequence[Row], target: str | None = None) -> list[Result]:
    """Return the result of each row, with its true label."""
    results = reader([text for text, _ in rows], batch_size=BATCH_SIZE, target=target)
    return [result | known for result, (_, known) in zip(results, rows, strict=True)]


def check_labels(readers: Readers) -> None:
    """Raise ValueError if checkpoints have different labels."""
    labels = {name: list(answers_of(reader.model.config).names) for name, reader in readers.items()}
    first, *others = labels
    for other in others:
        if set(labels[other]) != set(labels[first]):
            raise refusal(
                f"the labels of {first} are {', '.join(labels[first]):.200}, and those of {other} "
                f"are {', '.join(labels[other]):.200}",
                "compare checkpoints with the same labels, or write a page for each",
            )


def file_rows(reader: Pipeline, flags: Namespace) -> list[Row]:
    """Return up to `MAX_ROWS` drawn texts or pairs of a file, with the true labels they have."""
    columns = (flags.text_column_names, flags.label_column_name)
    read = rows_for_model(flags.checkpoint, reader.model, flags.file, *columns)
    rows: list[Row] = []
    drawn = read.splits["test"].shuffle(seed=0)
    for row in drawn.select(range(min(MAX_ROWS, drawn.num_rows))).to_list():
        label = row.pop("label", None)
        known = {} if label is None else {"true_label": read.labels.decode(label)}
        rows.append((row if len(row) > 1 else row["text"], known))
    return rows
