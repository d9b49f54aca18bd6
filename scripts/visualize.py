"""Show where a checkpoint looks: in the terminal, as a page for the browser, or as a figure.

    python scripts/visualize.py runs/quickstart/model --text "The room was small, but not bad."
    python scripts/visualize.py runs/snli --text "A man sleeps." --text_pair "A man is awake."
    python scripts/visualize.py runs/mine --compare runs/other --file dev.csv --output both.html

With --file, it shows five rows of each predicted label, drawn among those with a score of 0.8 or
more, as in the paper's Figure 2; or mistakes:

    python scripts/visualize.py runs/yelp5 --file dev.jsonl.gz --select wrong --output wrong.html

A translation is shown with its alignment:

    python scripts/visualize.py runs/translation/bpe --text "A dog runs." --output alignment.html

A figure shows one text: its hops by its words or, with --pairs, the weights that a relation network
gives pairs of tokens. Figures need `pip install 'sase_hf[viz]'`:

    python scripts/visualize.py runs/quickstart/model --text "Not bad at all." --output figure.svg
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sase_hf import visualization
from sase_hf.evaluation.dataset import read_file
from sase_hf.models import TRANSLATION_TASK
from sase_hf.utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output, write_text
from sase_hf.utils.loading import load_pipeline, name_checkpoints
from sase_hf.visualization.figures import FIGURE_ENDINGS
from sase_hf.visualization.selection import SELECT, Row, check_select, read_rows

PAGE_ENDINGS = (".html", ".htm")

# Terminal text, page and figure, to be called: only one of them is wanted.
Views = tuple[Callable[[], str], Callable[..., str], Callable[..., Any]]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the texts with each checkpoint, and print or write where it looks."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--compare", action="append", default=[], metavar="CHECKPOINT", help="another; repeatable")
    add("--text", action="append", help="a text; repeatable")
    add("--text_pair", action="append", help="the second text of a pair, one for each --text")
    add("--file", help="rows instead: CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add_text_column_names(parser)
    add("--label_column_name", help="of labels, may be missing (default: found by name)")
    add("--select", choices=SELECT, default=SELECT[0], help="which rows (default: %(default)s)")
    add("--per_label", type=positive_int, default=5, help="rows per label (default: %(default)s)")
    add("--min_score", type=float, help="lowest score of a row (default: 0.8 if confident, else 0)")
    add("--seed", type=int, default=0, help="seed of the selection (default: %(default)s)")
    add("--max_seq_length", type=positive_int, help="tokens after which a text, or a pair, is cut")
    batch_size = "--per_device_eval_batch_size"
    add(batch_size, type=positive_int, default=32, help="rows in a batch (default: %(default)s)")
    add("--pairs", action="store_true", help="draw the weights of pairs of tokens")
    add("--title", help="the heading of the page or figure")
    add("--output", type=Path, help="a file: .html, .png or .svg (default: the terminal)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check(flags)
        named = name_checkpoints([flags.checkpoint, *flags.compare])
        readers = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
        translates = any(reader.task == TRANSLATION_TASK for reader in readers.values())
        view = view_alignment if translates else view_attention
        text, page, figure = view(readers, flags)
        title = {} if flags.title is None else {"title": flags.title}
        if flags.output is None:
            print(text())
            return
        if flags.output.suffix.lower() in PAGE_ENDINGS:
            write_text(flags.output, page(**title))
        else:
            visualization.save_figure(figure(**title), flags.output)
        print(flags.output)


def check(flags: argparse.Namespace) -> None:
    """Raise ValueError for flags that contradict one another, before anything is loaded."""
    if (flags.text is None) == (flags.file is None):
        raise ValueError("give either --text, once or several times, or --file")
    num_texts, num_pairs = len(flags.text or []), len(flags.text_pair or [])
    if num_pairs not in (0, num_texts):
        raise ValueError(f"{num_pairs} --text_pair for {num_texts} --text; give one for each")
    check_output(flags.output)
    ending = "" if flags.output is None else flags.output.suffix.lower()
    if flags.pairs and (flags.compare or ending not in FIGURE_ENDINGS):
        raise ValueError("--pairs draws one checkpoint; give --output a name in .png or .svg")
    if flags.output is None or ending in PAGE_ENDINGS:
        return
    if ending not in FIGURE_ENDINGS:
        endings = ", ".join((*PAGE_ENDINGS, *FIGURE_ENDINGS))
        raise ValueError(f"--output {flags.output} must end in one of {endings}")
    visualization.check_figure_path(flags.output)
    if num_texts != 1:
        page = flags.output.with_suffix(".html")
        raise ValueError(f"a figure shows one text; give one --text, or --output {page}")


def view_alignment(readers: dict[str, Any], flags: argparse.Namespace) -> Views:
    """Translate the texts; return the views of the alignments."""
    refused = (flags.text_pair, flags.pairs or None, flags.max_seq_length)
    if len(readers) > 1 or flags.text is None or any(flag is not None for flag in refused):
        raise ValueError(
            "alignments are shown for one checkpoint and --text, once or several times, "
            "without --text_pair, --pairs and --max_seq_length"
        )
    [translate] = readers.values()
    results = translate(flags.text, batch_size=flags.per_device_eval_batch_size)
    return (
        lambda: "\n\n".join(map(visualization.alignment_text, results)),
        partial(visualization.alignment_html, results),
        partial(visualization.alignment_figure, results[0]),
    )


def view_attention(readers: dict[str, Any], flags: argparse.Namespace) -> Views:
    """Read the texts with each checkpoint; return the views of the attention."""
    check_labels(readers)
    [first, *others] = readers.values()
    size = (flags.per_device_eval_batch_size, flags.max_seq_length)
    rows = given_rows(flags) if flags.file is None else file_rows(first.model, flags)
    if flags.file is not None:
        check_select(flags.select, first.model.config.problem_type, rows)
        drawn_by = (flags.select, flags.per_label, flags.min_score, flags.seed)
        drawn = visualization.select_predictions(read_rows(first, rows, *size), *drawn_by)
        rows = [rows[place] for place in drawn]
    results = {name: read_rows(reader, rows, *size) for name, reader in readers.items()}
    if others:
        figure = partial(visualization.comparison_figure, {n: own[0] for n, own in results.items()})
        page = partial(visualization.comparison_html, results)
        return partial(visualization.comparison_text, results), page, figure
    [alone] = results.values()
    draw = visualization.pair_figure if flags.pairs else visualization.attention_figure
    text = partial(visualization.comparison_text, {"": alone})
    return text, partial(visualization.attention_html, alone), partial(draw, alone[0])


def check_labels(readers: dict[str, Any]) -> None:
    """Raise ValueError if checkpoints have different labels."""
    labels = {name: [*reader.model.config.id2label.values()] for name, reader in readers.items()}
    first, *others = labels
    for other in others:
        if set(labels[other]) != set(labels[first]):
            mine, its = (", ".join(labels[name]) for name in (first, other))
            raise ValueError(
                f"the labels of {first} are {mine:.200}, and those of {other} are {its:.200}; "
                "compare checkpoints with the same labels, or write a page for each"
            )


def given_rows(flags: argparse.Namespace) -> list[Row]:
    """Return the texts or pairs of the command line."""
    if flags.text_pair is None:
        return [(text, {}) for text in flags.text]
    pairs = zip(flags.text, flags.text_pair, strict=True)
    return [({"text": text, "text_pair": pair}, {}) for text, pair in pairs]


def file_rows(model: Any, flags: argparse.Namespace) -> list[Row]:
    """Return the texts or pairs of a file, the shortest first, with the true labels they have."""
    columns = flags.text_column_names, flags.label_column_name
    task = read_file(flags.checkpoint, model, flags.file, *columns)
    rows: list[Row] = []
    for row in task.splits["test"].to_list():
        label = row.pop("label", None)
        known = {} if label is None else {"true_label": task.labels.decode(label)}
        rows.append((row if len(row) > 1 else row["text"], known))
    return sorted(rows, key=lambda row: len(str(row[0])))


if __name__ == "__main__":
    main()
