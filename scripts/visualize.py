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

from transformers.utils import logging

from sase_hf.data.labels import MULTI_LABEL, REGRESSION
from sase_hf.evaluation.dataset import read_file
from sase_hf.utils.cli import column_names
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import load_pipeline, name_checkpoints
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
from sase_hf.visualization.canvas import ENDINGS, check_figure_path
from sase_hf.visualization.readings import read_result
from sase_hf.visualization.results import label_text
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
        results = read(flags, check(flags))
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
        type=column_names,
        default=["text"],
        metavar="NAMES",
        help='one text column, or two for pairs: "premise,hypothesis" (default: text)',
    )
    add(
        "--label_column_name",
        default="label",
        help="the column of true labels, which may be missing (default: %(default)s)",
    )
    add("--select", choices=KINDS, default=KINDS[0], help="which rows (default: %(default)s)")
    add(
        "--per_label",
        type=int,
        default=5,
        help="rows of each label (default: %(default)s)",
    )
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


def check(flags: argparse.Namespace) -> dict[str, str]:
    """Refuse flags that cannot be followed, before anything is loaded; name the checkpoints."""
    if (flags.text is None) == (flags.file is None):
        raise ValueError("give either --text, once or several times, or --file")
    num_pairs = len(flags.text_pair or [])
    if num_pairs not in (0, len(flags.text or [])):
        raise ValueError(
            f"{num_pairs} --text_pair came for {len(flags.text or [])} --text; give one for each"
        )
    for name in ("per_label", "max_seq_length", "per_device_eval_batch_size"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} is {value}; it must be 1 or more")
    endings = (*PAGE_ENDINGS, *ENDINGS)
    if flags.output is not None and flags.output.suffix.lower() not in endings:
        raise ValueError(f"--output {flags.output} must end in one of {', '.join(endings)}")
    check_output(flags.output)
    if is_figure(flags.output):
        check_figure_path(flags.output)
        require_one_text(flags.output, len(flags.text or [""]))
    if flags.file is not None and not Path(flags.file).is_file():
        raise FileNotFoundError(f"there is no file {flags.file}")
    return name_checkpoints([flags.checkpoint, *flags.compare])


def is_figure(output: Path | None) -> bool:
    """Say whether a file is asked for that holds a figure."""
    return output is not None and output.suffix.lower() in ENDINGS


def require_one_text(output: Path, count: int) -> None:
    """Refuse a figure of several texts."""
    if count > 1:
        raise ValueError(
            f"a figure shows one text, and {count} came; name a page, such as "
            f"{output.with_suffix('.html')}, or give one --text"
        )


def read(flags: argparse.Namespace, named: dict[str, str]) -> dict[str, Results]:
    """Return the results of each checkpoint on the chosen texts, by its name."""
    readers = {name: load_pipeline(checkpoint) for name, checkpoint in named.items()}
    is_pair = len(flags.text_column_names) == 2 if flags.file else flags.text_pair is not None
    for name, reader in readers.items():
        if reader.model.reads_pairs and not is_pair:
            raise ValueError(
                f"{named[name]} compares two texts; give --text and --text_pair, or name two "
                "columns: --text_column_names premise,hypothesis"
            )
    first = readers[next(iter(readers))]
    if flags.file is None:
        rows = given_rows(flags)
    else:
        rows = file_rows(flags, first)
        if is_figure(flags.output):
            require_one_text(flags.output, len(rows))
        rows = selected(flags, first, rows)
    return {
        name: [
            {**result, **known}
            for result, (_, known) in zip(answers(reader, rows, flags), rows, strict=True)
        ]
        for name, reader in readers.items()
    }


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
    task = read_file(flags.checkpoint, reader.model, flags)
    rows = []
    for row in task.splits["test"].to_list():
        label = row.pop("label", None)
        known: Any = label
        if config.problem_type == MULTI_LABEL and label is not None:
            known = [name for name, is_there in zip(names, label, strict=True) if is_there]
        elif config.problem_type != REGRESSION and label is not None:
            known = names[label]
        item = row if len(row) > 1 else row["text"]
        rows.append((item, {} if label is None else {"true_label": known}))
    return rows


def require_selectable(flags: argparse.Namespace, problem_type: str, rows: list[Row]) -> None:
    """Refuse a selection for which the model, or the file, has nothing to go by."""
    if problem_type == REGRESSION and flags.select != "random":
        raise ValueError(
            f"{flags.checkpoint} predicts numbers, of which none is confident or wrong; draw rows "
            "with --select random"
        )
    if flags.select != "wrong":
        return
    if problem_type == MULTI_LABEL:
        raise ValueError(
            f"{flags.checkpoint} gives a text any number of labels, so its best one is not right "
            "or wrong; draw rows with --select confident or --select random"
        )
    if not all("true_label" in known for _, known in rows):
        raise ValueError(
            f"--select wrong needs true labels, and {flags.file} has none in the column "
            f"{flags.label_column_name!r}; name theirs with --label_column_name"
        )


def selected(flags: argparse.Namespace, reader: Any, rows: list[Row]) -> list[Row]:
    """Predict all rows of a file and return those that are asked for."""
    require_selectable(flags, reader.model.config.problem_type, rows)
    # Batches of texts that are about as long need little padding.
    rows = sorted(
        rows, key=lambda row: len("".join(row[0].values()) if isinstance(row[0], dict) else row[0])
    )
    predicted = [(result["label"], result["score"]) for result in answers(reader, rows, flags)]
    labels, scores = map(list, zip(*predicted, strict=True))
    known: list[Any] = [row[1].get("true_label") for row in rows]
    least = flags.min_score if flags.min_score is not None else 0.8 * (flags.select == "confident")
    places = select_predictions(
        labels,
        scores,
        known if flags.select == "wrong" else None,
        kind=flags.select,
        per_label=flags.per_label,
        min_score=least,
        seed=flags.seed,
    )
    return [rows[place] for place in places]


def answers(reader: Any, rows: list[Row], flags: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the result of each row, checked, under a progress bar where there are many."""
    options = {} if flags.max_seq_length is None else {"max_length": flags.max_seq_length}
    inputs = (item for item, _ in rows)
    results = reader(inputs, batch_size=flags.per_device_eval_batch_size, **options)
    for result in logging.tqdm(results, desc="Reading", total=len(rows), unit=" rows", delay=1):
        read_result(result, f"a result of {reader.model.name_or_path}")
        yield result


def write(results: dict[str, Results], output: Path, title: str | None) -> None:
    """Write a page or a figure; the ending of the file says which."""
    several, named = len(results) > 1, {} if title is None else {"title": title}
    only = next(iter(results.values()))
    if output.suffix.lower() in PAGE_ENDINGS:
        page = comparison_html(results, **named) if several else attention_html(only, **named)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
        return
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
            known = ""
            if "true_label" in result:
                known = f", true label {label_text(result['true_label'])}"
            said = f"{result['label']} {result['score']:.3f}{known}"
            yield visible(f"{name}: {said}" if len(results) > 1 else said)
            yield attention_text(result)
        yield ""


if __name__ == "__main__":
    main()
