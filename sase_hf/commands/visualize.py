"""Show the attention of a checkpoint in the terminal, as a page for the browser, or as an SVG.

    sase_hf visualize runs/quickstart/model --text "The room was small, but not bad."
    sase_hf visualize runs/mine --compare runs/other --file dev.csv --output both.html
    sase_hf visualize runs/translation/bpe --text "A dog runs." --output alignment.html

A pair is --text and --text_pair. --text_column_names and --label_column_name name columns of
--file; --per_label, --min_score and --seed change the choice of rows. --target explains another
label than the predicted one, --title heads the page.

With --file, it first says what the model learned, from all rows: the words that spoke for each
label and against it, and what each hop reads. Then it shows five rows of each predicted label,
drawn among those with a score of 0.8 or more, as in the paper's Figure 2, or mistakes with
`--select wrong`. With --compare it shows the rows alone. An .svg shows one text or pair.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from transformers import Pipeline, PreTrainedModel

from .. import visualization
from ..data.batching import rows_for_model
from ..models import TRANSLATION_TASK
from ..models.answers import answers_of
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from ..utils.errors import refusal
from ..utils.files import check_output, write_text
from ..utils.loading import load_pipeline, name_checkpoints
from ..visualization.learned_words import LearnedWords, read_learned_words
from ..visualization.selection import SELECT, Row, check_select, read_answers, read_rows

ENDINGS = (".html", ".htm", ".svg")

Readers = dict[str, Pipeline]  # by the name of the checkpoint


def main(argv: Sequence[str] | None = None) -> None:
    """Read the texts with each checkpoint, and print or write the attention."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--compare", action="append", default=[], metavar="CHECKPOINT", help="another; repeatable")
    add("--text", action="append", help="a text; repeatable")
    add("--text_pair", action="append", help="the second text of a pair, one for each --text")
    add("--file", help="rows instead: CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet")
    add_text_column_names(parser)
    add("--label_column_name", help="of labels, may be missing (default: found by name)")
    add("--select", choices=SELECT, default=SELECT[0], help="which rows (default: %(default)s)")
    add("--per_label", type=positive_int, default=5, help="rows per label (default: %(default)s)")
    add("--min_score", type=float, help="lowest score of a row (default: 0.8 if confident, else 0)")
    add("--seed", type=int, default=0, help="seed of the selection (default: %(default)s)")
    batch_size = "--per_device_eval_batch_size"
    add(batch_size, type=positive_int, default=32, help="rows in a batch (default: %(default)s)")
    add("--target", metavar="LABEL", help="the label to explain (default: the predicted one)")
    add("--title", help="the heading of the page or SVG")
    add("--output", type=Path, help="a file: .html or .svg (default: the terminal)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        ending = check(flags)
        named = name_checkpoints([flags.checkpoint, *flags.compare])
        readers = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
        if flags.text and not flags.text_pair:
            for name, reader in readers.items():
                if reader.model.reads_pairs:
                    raise ValueError(f"{name} compares two texts; give --text_pair for each --text")
        translates = any(reader.task == TRANSLATION_TASK for reader in readers.values())
        show = show_alignment if translates else show_attention
        shown = show(readers, flags, ending)
        if not ending:
            print(shown)
            return
        write_text(flags.output, shown)
        print(flags.output)


def check(flags: Namespace) -> str:
    """Return the ending of the output, "" for the terminal; refuse flags that contradict."""
    ending = "" if flags.output is None else flags.output.suffix.lower()
    if (flags.text is None) == (flags.file is None):
        raise ValueError("give either --text, once or several times, or --file")
    num_texts = len(flags.text or [])
    num_pairs = len(flags.text_pair or [])
    if num_pairs not in (0, num_texts):
        raise ValueError(f"{num_pairs} --text_pair for {num_texts} --text; give one for each")
    check_output(flags.output, [flags.file, flags.checkpoint, *flags.compare])
    if flags.output is not None and ending not in ENDINGS:
        raise ValueError(f"--output {flags.output} must end in one of {', '.join(ENDINGS)}")
    if ending == ".svg" and (num_texts != 1 or flags.compare):
        page = flags.output.with_suffix(".html")
        raise refusal(
            f"{flags.output} shows one text of one checkpoint",
            f"give one --text and no --compare, or --output {page}",
        )
    return ending


def show_alignment(readers: Readers, flags: Namespace, ending: str) -> str:
    """Translate the texts; return the alignments as a page, an SVG or text for the terminal."""
    is_other = flags.text_pair is not None or flags.target is not None
    if len(readers) > 1 or flags.text is None or is_other:
        raise ValueError(
            "alignments are shown for one checkpoint and --text, once or several times, "
            "without --text_pair and --target"
        )
    [translate] = readers.values()
    results = translate(flags.text, batch_size=flags.per_device_eval_batch_size)
    if ending == ".svg":
        return visualization.attention_svg(results[0], flags.title or "")
    if ending:
        return visualization.alignment_html(results, flags.title or "Alignment")
    return "\n\n".join(map(visualization.alignment_text, results))


def show_attention(readers: Readers, flags: Namespace, ending: str) -> str:
    """Read the texts with each checkpoint; return the attention as `show_alignment` does."""
    check_labels(readers)
    batch_size = flags.per_device_eval_batch_size
    learned = None
    if flags.file is None:
        rows = given_rows(flags)
    else:
        reader = next(iter(readers.values()))
        all_rows = file_rows(reader.model, flags)
        rows = drawn_rows(reader, all_rows, flags)
        if len(readers) == 1:
            learned = learned_words(reader, all_rows)
    results = {}
    for name, reader in readers.items():
        shown_name = name if len(readers) > 1 else ""
        results[shown_name] = read_rows(reader, rows, batch_size, flags.target)
    if ending == ".svg":
        return visualization.attention_svg(results[""][0], flags.title or "")
    if ending and len(readers) == 1:
        return visualization.attention_html(results[""], flags.title or "Attention", learned)
    if ending:
        return visualization.comparison_html(results, flags.title or "Attention compared")
    shown = visualization.comparison_text(results)
    if learned is None:
        return shown
    return f"{visualization.learned_text(learned)}\n\n{shown}"


def learned_words(reader: Pipeline, rows: Sequence[Row]) -> LearnedWords | None:
    """Return what a classifier learned, from all rows; None for a ranker, which has no labels."""
    if not hasattr(reader.model, "classify"):
        return None
    return read_learned_words(reader, [text for text, _ in rows])


def drawn_rows(reader: Pipeline, rows: Sequence[Row], flags: Namespace) -> list[Row]:
    """Return the rows that `--select` draws, by what the reader predicts for them."""
    check_select(flags.select, reader.model, rows, flags.file)
    results = read_answers(reader, rows, flags.per_device_eval_batch_size)
    drawn = visualization.select_predictions(
        results, flags.select, flags.per_label, flags.min_score, flags.seed
    )
    return [rows[place] for place in drawn]


def check_labels(readers: Readers) -> None:
    """Raise ValueError if checkpoints have different labels."""
    labels = {name: list(answers_of(reader.model.config).names) for name, reader in readers.items()}
    first, *others = labels
    for other in others:
        if set(labels[other]) != set(labels[first]):
            labels_of_first = ", ".join(labels[first])
            labels_of_other = ", ".join(labels[other])
            raise refusal(
                f"the labels of {first} are {labels_of_first:.200}, and those of {other} are "
                f"{labels_of_other:.200}",
                "compare checkpoints with the same labels, or write a page for each",
            )


def given_rows(flags: Namespace) -> list[Row]:
    """Return the texts or pairs of the command line."""
    if flags.text_pair is None:
        return [(text, {}) for text in flags.text]
    pairs = zip(flags.text, flags.text_pair, strict=True)
    return [({"text": text, "text_pair": pair}, {}) for text, pair in pairs]


def file_rows(model: PreTrainedModel, flags: Namespace) -> list[Row]:
    """Return the texts or pairs of a file, the shortest first, with the true labels they have."""
    read = rows_for_model(
        flags.checkpoint, model, flags.file, flags.text_column_names, flags.label_column_name
    )
    rows: list[Row] = []
    for row in read.splits["test"].to_list():
        label = row.pop("label", None)
        known = {} if label is None else {"true_label": read.labels.decode(label)}
        rows.append((row if len(row) > 1 else row["text"], known))
    return sorted(rows, key=lambda row: len(str(row[0])))
