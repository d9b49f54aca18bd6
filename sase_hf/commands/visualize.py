"""Show why a checkpoint answers so: in the terminal, as a page for the browser, or as an SVG.

    sase_hf visualize runs/quickstart/model --text "The room was small, but not bad."
    sase_hf visualize runs/mine --compare runs/other --file dev.csv --output both.html
    sase_hf visualize runs/translation/bpe --text "A dog runs." --output alignment.html

A pair is --text and --text_pair. --text_column_names and --label_column_name name columns of
--file. --target explains another label than the predicted one.

Of --file, up to 1000 rows are drawn. A page first says what the model learned from them: the words
that spoke for each label and against it. Then it shows ten of the rows. The terminal and --compare,
which writes a page, show these alone. An .svg shows one text or pair.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Pipeline

from .. import visualization
from ..data.batching import rows_for_model
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser
from ..utils.files import check_output, write_text
from ..utils.loading import load_pipeline, name_checkpoints
from ..utils.text import refusal
from ..visualization.attended_text import Result, of_texts, read_with_rivals

ENDINGS = ("", ".html", ".svg")  # the first one is the terminal
BATCH_SIZE = 32
MAX_ROWS = 1_000  # of a file, that say what the model learned
NUM_SHOWN = 10  # of these

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
    add(
        "--label_column_name",
        action="append",
        help="of labels, may be missing (default: found by name)",
    )
    add(
        "--target",
        metavar="LABEL",
        help="the label to explain (default: the predicted one, or the first number)",
    )
    add("--output", type=Path, help="a file: .html or .svg (default: the terminal)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        ending = check(flags)
        named = name_checkpoints([flags.checkpoint, *flags.compare])
        readers = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
        translates = any(reader.model.can_generate() for reader in readers.values())
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
    if ending not in ENDINGS:
        raise ValueError(f"--output {flags.output} must end in .html or .svg")
    if ending == ".svg" and num_texts != 1:
        raise refusal(f"{flags.output} shows one text", "give one --text, or an --output .html")
    if flags.compare and ending != ".html":
        raise refusal("--compare writes a page", "give an --output that ends in .html")
    return ending


def show_alignment(readers: Readers, flags: Namespace, ending: str) -> str:
    """Translate the texts; return the alignments as a page or an SVG."""
    if flags.compare or flags.text is None or flags.text_pair or flags.target or not ending:
        raise refusal(
            "alignments are drawn of one checkpoint and its --text",
            "give an --output, and leave out --compare, --file, --text_pair and --target",
        )
    [translate] = readers.values()
    results = translate(flags.text, batch_size=BATCH_SIZE)
    if ending == ".svg":
        return visualization.attention_svg(results[0])
    return visualization.alignment_html(results, " and ".join(readers))


def show_reasons(readers: Readers, flags: Namespace, ending: str) -> str:
    """Read the texts with each checkpoint; return why as `show_alignment` does."""
    reader = next(iter(readers.values()))
    rows = given_rows(reader, flags)
    drawn = rows[:NUM_SHOWN] if flags.file else rows
    has_rivals = ending == ".html" and flags.target is None
    shown = {}
    for name, one in readers.items():
        shown[name] = read_rows(one, drawn, flags.target, has_rivals)
    [first, *others] = shown.values()
    if others:
        return visualization.comparison_html(shown, " and ".join(readers))
    if ending == ".svg":
        return visualization.attention_svg(first[0])
    if not ending:
        return "\n\n".join(map(text_and_reasons, first))
    learned = None
    if flags.file and hasattr(reader.model, "neighbours"):
        learned = visualization.read_learned_words(reader, [text for text, _ in rows])
    return visualization.attention_html(first, " and ".join(readers), learned)


def text_and_reasons(result: Result) -> str:
    """Return the text of a result, or both, and why, for a terminal."""
    texts = [f'"{visualization.visible(text)}"' for text in of_texts(result, "text")]
    return "\n".join([*texts, visualization.attention_text(result)])


def read_rows(
    reader: Pipeline, rows: Sequence[Row], target: str | None, has_rivals: bool
) -> list[Result]:
    """Return the result of each row, with its true label."""
    texts = [text for text, _ in rows]
    results = read_with_rivals(reader, texts) if has_rivals else reader(texts, target=target)
    return [result | known for result, (_, known) in zip(results, rows, strict=True)]


def given_rows(reader: Pipeline, flags: Namespace) -> list[Row]:
    """Return the texts or pairs of the flags, or drawn ones of a file with their true labels."""
    if flags.text_pair:
        pairs = zip(flags.text, flags.text_pair, strict=True)
        return [({"text": text, "text_pair": pair}, {}) for text, pair in pairs]
    if flags.text:
        return [(text, {}) for text in flags.text]
    columns = (flags.text_column_names, flags.label_column_name)
    read = rows_for_model(flags.checkpoint, reader.model, flags.file, *columns)
    rows: list[Row] = []
    drawn = read.splits["test"].shuffle(seed=0)
    for row in drawn.select(range(min(MAX_ROWS, drawn.num_rows))).to_list():
        label = row.pop("label", None)
        known = {} if label is None else {"true_label": read.labels.decode(label)}
        rows.append((row, known))
    return rows
