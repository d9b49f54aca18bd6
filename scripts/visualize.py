"""Show where a checkpoint looks: in the terminal, as a page for the browser, or as a figure.

    python scripts/visualize.py runs/quickstart/model --text "The room was small, but not bad."

Rows of a file: five of each predicted label, among those with a score of 0.8 or more, as in the
paper's Figure 2; or mistakes, with their true labels:

    python scripts/visualize.py runs/yelp5 --file dev.jsonl.gz --output attention.html
    python scripts/visualize.py runs/yelp5 --file dev.jsonl.gz --select wrong --output wrong.html

Pairs of texts, and two checkpoints side by side, such as one trained with the penalty and one
without:

    python scripts/visualize.py runs/snli --text "A man sleeps." --text_pair "A man is awake."
    python scripts/visualize.py runs/mine --compare runs/other --file dev.csv --output both.html

The alignment of a translation, for a checkpoint of scripts/train_translation.py:

    python scripts/visualize.py runs/translation/bpe --text "A dog runs." --output alignment.html

The weights that a relation network gives pairs of tokens, as a figure of tokens by tokens:

    python scripts/visualize.py runs/mine --text "Not bad at all." --pairs --output pairs.svg

A figure shows one text; it needs `pip install 'sase_hf[viz]'`:

    python scripts/visualize.py runs/quickstart/model --text "Not bad at all." --output figure.svg
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging

from sase_hf.data.labels import MULTI_LABEL, REGRESSION
from sase_hf.evaluation.dataset import read_file
from sase_hf.models import TRANSLATION_TASK
from sase_hf.utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output, write_text
from sase_hf.utils.loading import load_pipeline, name_checkpoints
from sase_hf.visualization import (
    alignment_figure,
    alignment_html,
    alignment_text,
    attention_figure,
    attention_html,
    attention_text,
    check_figure_path,
    comparison_figure,
    comparison_html,
    pair_figure,
    save_figure,
    select_predictions,
    visible,
)
from sase_hf.visualization.attended_text import label_text
from sase_hf.visualization.figures import FIGURE_ENDINGS
from sase_hf.visualization.selection import KINDS
from sase_hf.visualization.terminal import has_true_color

PAGE_ENDINGS = (".html", ".htm")

Row = dict[str, Any]  # `input` of the pipeline and, if it is known, `true_label`
Results = list[dict[str, Any]]


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
    add("--select", choices=KINDS, default=KINDS[0], help="which rows (default: %(default)s)")
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
        pipelines = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
        translates = [p.task == TRANSLATION_TASK for p in pipelines.values()]
        if any(translates):
            refused = (flags.text_pair, flags.pairs or None, flags.max_seq_length)
            if len(pipelines) > 1 or flags.text is None or any(f is not None for f in refused):
                raise ValueError(
                    "alignments are shown for one checkpoint and --text, once or several times, "
                    "without --text_pair, --pairs and --max_seq_length"
                )
            show_alignments(next(iter(pipelines.values())), flags)
            return
        check_labels({name: reader.model.config for name, reader in pipelines.items()})
        first = next(iter(pipelines.values()))
        rows = given_rows(flags) if flags.file is None else chosen_rows(flags, first)
        results = {name: run(reader, rows, flags) for name, reader in pipelines.items()}
        if flags.output is None:
            print(*terminal_lines(results), sep="\n")
        else:
            options = {} if flags.title is None else {"title": flags.title}
            if flags.pairs:
                [[result]] = results.values()
                save_figure(pair_figure(result, **options), flags.output)
            else:
                write(results, flags.output, options)
            print(flags.output)


def show_alignments(translate: Any, flags: argparse.Namespace) -> None:
    """Print or write the translations of the texts with their alignments."""
    results = translate(flags.text, batch_size=flags.per_device_eval_batch_size)
    options = {} if flags.title is None else {"title": flags.title}
    if flags.output is None:
        print(*(alignment_text(result) for result in results), sep="\n\n")
        return
    if flags.output.suffix.lower() in PAGE_ENDINGS:
        write_text(flags.output, alignment_html(results, **options))
    else:
        save_figure(alignment_figure(results[0], **options), flags.output)
    print(flags.output)


def check(flags: argparse.Namespace) -> None:
    """Raise ValueError for flags that contradict one another, before anything is loaded."""
    if (flags.text is None) == (flags.file is None):
        raise ValueError("give either --text, once or several times, or --file")
    num_texts, num_pairs = len(flags.text or []), len(flags.text_pair or [])
    if num_pairs not in (0, num_texts):
        raise ValueError(f"{num_pairs} --text_pair for {num_texts} --text; give one for each")
    check_output(flags.output)
    is_figure = flags.output is not None and flags.output.suffix.lower() in FIGURE_ENDINGS
    if flags.pairs and (flags.compare or not is_figure):
        raise ValueError("--pairs draws one checkpoint; give --output a name in .png or .svg")
    if flags.output is not None and flags.output.suffix.lower() not in PAGE_ENDINGS:
        if flags.output.suffix.lower() not in FIGURE_ENDINGS:
            endings = ", ".join((*PAGE_ENDINGS, *FIGURE_ENDINGS))
            raise ValueError(f"--output {flags.output} must end in one of {endings}")
        check_figure_path(flags.output)
        if num_texts != 1:
            page = flags.output.with_suffix(".html")
            raise ValueError(f"a figure shows one text; give one --text, or --output {page}")


def check_labels(configs: dict[str, Any]) -> None:
    """Raise ValueError if checkpoints have different labels."""
    labels = {name: [*config.id2label.values()] for name, config in configs.items()}
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
        return [{"input": text} for text in flags.text]
    pairs = zip(flags.text, flags.text_pair, strict=True)
    return [{"input": {"text": text, "text_pair": pair}} for text, pair in pairs]


def chosen_rows(flags: argparse.Namespace, reader: Any) -> list[Row]:
    """Return the rows of a file that the flags and the predictions of a pipeline select."""
    config = reader.model.config
    rows = file_rows(flags, reader.model)
    if config.problem_type == REGRESSION and flags.select != "random":
        raise ValueError(f"{flags.checkpoint} predicts numbers; add --select random")
    if config.problem_type == MULTI_LABEL and flags.select == "wrong":
        raise ValueError(f"{flags.checkpoint} predicts sets of labels; choose another --select")
    if flags.select == "wrong" and not all("true_label" in row for row in rows):
        where = f" in {flags.label_column_name!r}" if flags.label_column_name else ""
        fault = f"--select wrong: {flags.file} has no labels{where}"
        raise ValueError(f"{fault}; set --label_column_name")
    # Texts of similar length in a batch need little padding.
    rows.sort(key=lambda row: len(str(row["input"])))
    results = run(reader, rows, flags)
    min_score = flags.min_score
    if min_score is None:
        min_score = 0.8 if flags.select == "confident" else 0.0
    places = select_predictions(
        [result["label"] for result in results],
        [result["score"] for result in results],
        [row["true_label"] for row in rows] if flags.select == "wrong" else None,
        kind=flags.select,
        per_label=flags.per_label,
        min_score=min_score,
        seed=flags.seed,
    )
    return [rows[place] for place in places]


def file_rows(flags: argparse.Namespace, model: Any) -> list[Row]:
    """Return the texts or pairs of a file, with their true labels if it has any."""
    rows: list[Row] = []
    task = read_file(flags.checkpoint, model, flags)
    for row in task.splits["test"].to_list():
        label = row.pop("label", None)
        rows.append({"input": row if len(row) > 1 else row["text"]})
        if label is not None:
            rows[-1]["true_label"] = task.readable_label(label)
    return rows


def run(reader: Any, rows: list[Row], flags: argparse.Namespace) -> Results:
    """Return the result of a pipeline for each row, with its true label."""
    options: dict[str, Any] = {}
    if flags.max_seq_length is not None:
        options = {"max_length": flags.max_seq_length}
    elif getattr(reader.model.config, "encoder", None) == "auto_model":
        options = {"truncation": True}  # it reads no longer texts
    inputs = (row["input"] for row in rows)
    results = reader(inputs, batch_size=flags.per_device_eval_batch_size, **options)
    bar = logging.tqdm(zip(results, rows, strict=True), desc="Reading", total=len(rows), delay=1)
    return [result | {k: row[k] for k in ("true_label",) if k in row} for result, row in bar]


def write(results: dict[str, Results], output: Path, options: dict[str, str]) -> None:
    """Write a page or a figure, as the ending of the file demands."""
    several, [only, *_] = len(results) > 1, results.values()
    if output.suffix.lower() in PAGE_ENDINGS:
        page = comparison_html(results, **options) if several else attention_html(only, **options)
        write_text(output, page)
    elif several:
        firsts = {name: own[0] for name, own in results.items()}
        save_figure(comparison_figure(firsts, **options), output)
    else:
        save_figure(attention_figure(only[0], **options), output)


def terminal_lines(results: dict[str, Results]) -> Iterator[str]:
    """Yield each text, and for each checkpoint its prediction and where it looks."""
    for same_text in zip(*results.values(), strict=True):
        if not has_true_color():
            text = same_text[0]["text"]
            yield from (f'"{visible(one)}"' for one in ([text] if isinstance(text, str) else text))
        for name, result in zip(results, same_text, strict=True):
            line = f"{name}: " if len(results) > 1 else ""
            line += f"{result['label']} {result['score']:.3f}"
            if "true_label" in result:
                line += f", true label {label_text(result['true_label'])}"
            yield visible(line)
            yield attention_text(result)
        yield ""


if __name__ == "__main__":
    main()
