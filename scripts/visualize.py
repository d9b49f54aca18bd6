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

A figure shows one text; it needs `pip install 'sase_hf[viz]'`:

    python scripts/visualize.py runs/quickstart/model --text "Not bad at all." --output figure.svg
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers import pipeline
from transformers.utils import logging

from sase_hf.data import load_task
from sase_hf.pipeline_self_attentive import TASK
from sase_hf.sources import SPLITS
from sase_hf.visualization import (
    attention_figure,
    attention_html,
    attention_text,
    comparison_figure,
    comparison_html,
    save_figure,
    select_predictions,
    visible,
)
from sase_hf.visualization.canvas import ENDINGS
from sase_hf.visualization.selection import KINDS
from sase_hf.visualization.terminal import has_true_color

PAGE_ENDINGS = (".html", ".htm")
Results = list[dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the texts with each checkpoint, and print or write what they look at.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = build_parser()
    flags = parser.parse_args(argv)
    try:
        check(flags)
        results = read(flags)
        if flags.output is None:
            print(*terminal_lines(results), sep="\n")
        else:
            write(results, flags.output, flags.title)
            print(flags.output)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"visualize.py: {error}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's flags."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--compare", action="append", default=[], metavar="CHECKPOINT", help="another one; again")
    add("--text", action="append", help="a text; may be given again")
    add("--text_pair", action="append", help="the second text of a pair, one for each --text")
    add("--file", help="rows instead: CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add(
        "--text_column_names",
        default="text",
        help='one text column, or two for pairs: "premise,hypothesis" (default: %(default)s)',
    )
    add(
        "--label_column_name",
        default="label",
        help="the column of true labels, which may be missing (default: %(default)s)",
    )
    add("--select", choices=KINDS, default=KINDS[0], help="which rows (default: %(default)s)")
    add("--per_label", type=int, default=5, help="rows of each label (default: %(default)s)")
    add(
        "--min_score",
        type=float,
        help="least score of the rows; by default 0.8 if confident and 0 if wrong",
    )
    add("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    add("--max_seq_length", type=int, help="tokens after which a text, or a pair, is cut")
    add(
        "--per_device_eval_batch_size",
        type=int,
        default=32,
        help="rows in a batch (default: %(default)s)",
    )
    add("--title", help="the heading of the page or figure")
    add("--output", type=Path, help="a file: .html, .png or .svg; by default the terminal")
    return parser


def check(flags: argparse.Namespace) -> None:
    """Refuse flags that contradict one another, before anything is loaded."""
    if (flags.text is None) == (flags.file is None):
        raise ValueError("give either --text, once or several times, or --file")
    num_pairs = len(flags.text_pair or [])
    if num_pairs not in (0, len(flags.text or [])):
        raise ValueError(
            f"{num_pairs} --text_pair came for {len(flags.text or [])} --text; give one for each"
        )
    endings = (*PAGE_ENDINGS, *ENDINGS)
    if flags.output is not None and flags.output.suffix.lower() not in endings:
        raise ValueError(f"--output {flags.output} must end in one of {', '.join(endings)}")
    if flags.file is not None and not Path(flags.file).is_file():
        raise FileNotFoundError(f"there is no file {flags.file}")
    names = [flags.checkpoint, *flags.compare]
    if len(set(names)) < len(names):
        raise ValueError(f"{', '.join(names)}: to compare, each checkpoint must be another one")


def read(flags: argparse.Namespace) -> dict[str, Results]:
    """Return the results of each checkpoint on the chosen texts, by its name."""
    reader = load(flags.checkpoint)
    rows = file_rows(flags, reader) if flags.file is not None else given_rows(flags)
    if reader.model.reads_pairs and not isinstance(rows[0][0], dict):
        raise ValueError(
            f"{flags.checkpoint} compares two texts; give --text and --text_pair, or name two "
            "columns: --text_column_names premise,hypothesis"
        )
    if flags.file is not None:
        rows = selected(flags, reader, rows)
    others = {name: load(name) for name in flags.compare}
    return {
        name: [
            {**result, **known}
            for result, (_, known) in zip(answers(each, rows, flags), rows, strict=True)
        ]
        for name, each in {flags.checkpoint: reader, **others}.items()
    }


def load(checkpoint: str) -> Any:
    """Return the pipeline of a checkpoint; code that lies beside it is not run."""
    make: Any = pipeline  # its overloads know only the tasks of transformers
    try:
        return make(TASK, model=checkpoint, trust_remote_code=False)
    except (ValueError, OSError) as reason:
        raise ValueError(f"cannot show {checkpoint}: {reason}") from reason


Row = tuple[Any, dict[str, Any]]


def given_rows(flags: argparse.Namespace) -> list[Row]:
    """Return the texts or pairs of the command line."""
    if flags.text_pair is None:
        return [(text, {}) for text in flags.text]
    pairs = zip(flags.text, flags.text_pair, strict=True)
    return [({"text": first, "text_pair": second}, {}) for first, second in pairs]


def file_rows(flags: argparse.Namespace, reader: Any) -> list[Row]:
    """Return the texts or pairs of a file, with their true labels as far as it has any."""
    config = reader.model.config
    names = [name for _, name in sorted(config.id2label.items())]
    task = load_task(
        test_file=flags.file,  # the only split that may come without labels
        text_columns=[name.strip() for name in flags.text_column_names.split(",")],
        label_column=flags.label_column_name,
        problem_type=config.problem_type,
        label_names=names,
    )
    rows = []
    for row in task.splits[SPLITS[-1]].to_list():
        label = row.pop("label", None)
        known: Any = label
        if config.problem_type == "multi_label_classification" and label is not None:
            known = [name for name, is_there in zip(names, label, strict=True) if is_there]
        elif config.problem_type != "regression" and label is not None:
            known = names[label]
        item = row if len(row) > 1 else row["text"]
        rows.append((item, {} if label is None else {"true_label": known}))
    return rows


def selected(flags: argparse.Namespace, reader: Any, rows: list[Row]) -> list[Row]:
    """Predict all rows of a file and return those that are asked for."""
    if reader.model.config.problem_type == "regression" and flags.select != "random":
        raise ValueError(
            f"{flags.checkpoint} predicts numbers, of which none is confident or wrong; draw rows "
            "with --select random"
        )
    # Batches of texts that are about as long need little padding.
    rows = sorted(
        rows, key=lambda row: len("".join(row[0].values()) if isinstance(row[0], dict) else row[0])
    )
    predicted = [(result["label"], result["score"]) for result in answers(reader, rows, flags)]
    labels, scores = map(list, zip(*predicted, strict=True))
    known: list[Any] = [row[1].get("true_label") for row in rows]
    is_comparable = all(isinstance(label, str) for label in known)
    least = flags.min_score if flags.min_score is not None else 0.8 * (flags.select == "confident")
    places = select_predictions(
        labels,
        scores,
        known if is_comparable else None,
        kind=flags.select,
        per_label=flags.per_label,
        min_score=least,
        seed=flags.seed,
    )
    return [rows[place] for place in places]


def answers(reader: Any, rows: list[Row], flags: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the result of each row, under a progress bar where there are many."""
    options = {} if flags.max_seq_length is None else {"max_length": flags.max_seq_length}
    inputs = (item for item, _ in rows)
    results = reader(inputs, batch_size=flags.per_device_eval_batch_size, **options)
    yield from logging.tqdm(results, desc="Reading", total=len(rows), unit=" rows", delay=1)


def write(results: dict[str, Results], output: Path, title: str | None) -> None:
    """Write a page or a figure; the ending of the file says which."""
    several, named = len(results) > 1, {} if title is None else {"title": title}
    only = next(iter(results.values()))
    if output.suffix.lower() in PAGE_ENDINGS:
        page = comparison_html(results, **named) if several else attention_html(only, **named)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
        return
    if len(only) > 1:
        raise ValueError(
            f"a figure shows one text, and {len(only)} came; name a page, such as "
            f"{output.with_suffix('.html')}, or give one --text"
        )
    firsts = {name: own[0] for name, own in results.items()}
    figure = comparison_figure(firsts, **named) if several else attention_figure(only[0], **named)
    save_figure(figure, output)


def terminal_lines(results: dict[str, Results]) -> Iterator[str]:
    """Yield each text, what each checkpoint makes of it, and where it looks."""
    for same_text in zip(*results.values(), strict=True):
        if not has_true_color():
            text = same_text[0]["text"]
            yield from (f'"{visible(one)}"' for one in ([text] if isinstance(text, str) else text))
        for name, result in zip(results, same_text, strict=True):
            known = f", true label {result['true_label']}" if "true_label" in result else ""
            said = f"{result['label']} {result['score']:.3f}{known}"
            yield visible(f"{name}: {said}" if len(results) > 1 else said)
            yield attention_text(result)
        yield ""


if __name__ == "__main__":
    main()
