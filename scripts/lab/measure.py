"""Measure which words the hops read, which scores of words explain the predictions, and more.

    python scripts/lab/measure.py attention runs/penalty runs/no_penalty --file dev.jsonl
        --word_list opinion_words.tsv --record attention.json --plot attention.png
    python scripts/lab/measure.py faithfulness runs/yelp5 --file data/yelp5.dev.jsonl.gz
        --max_samples 500 --record faithfulness.json --plot faithfulness.svg
    python scripts/lab/measure.py agreement runs/yelp5 --file marked.jsonl
        --word_list opinion_words.tsv --record agreement.json
    python scripts/lab/measure.py learned runs/seed1 runs/seed2 runs/seed3 --file dev.jsonl
        --train_file train.jsonl --record learned.json

`attention` compares checkpoints, such as one trained with --penalty_coef 1 and one with 0. Entropy
is divided by log T, that of equal attention on all T words: 0 is one word, 1 all words alike; the
effective words are exp of the entropy. The cosine of a hop is the mean cosine between its weights
and those of each other hop: 1 for hops that read the same. The lift is the attention on the words
of the list over their share of the tokens.

`faithfulness` removes the words with the highest scores from each text step by step and follows the
probability of the predicted class; then inserts them into an empty text. The scores are attention,
the contributions of states and of words, gradient times input, leaving each word out, Integrated
Gradients (`pip install 'sase_hf[lab]'`) and random numbers. The cost of a score is
its time on the processor over that of one pass forward, which gives prediction and attention.

`agreement` compares the words with the highest of these scores, and of the ratings of a word list,
with those that people marked in a column `rationale`, [[start, end], ...] in characters.

`learned` removes the words that spoke for each label from all texts, and then as frequent ones, and
with --train_file those of a linear model; and says how many words the lists of several checkpoints,
such as those of three seeds, have in common.

`--plot` needs `pip install 'sase_hf[lab]'`. In seconds, on the model of scripts/quickstart.py:

    python scripts/lab/measure.py attention runs/quickstart/model --max_samples 100
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from charts import check_figure_path, curves_figure, save_figure, statistics_figure
from explanations.agreement import AGREEMENT, measure_agreement
from explanations.attention import DISTRIBUTIONS, measure_attention, read_word_list
from explanations.dataset import (
    EvaluationDataset,
    load_evaluation_dataset,
)
from explanations.faithfulness import MEASURES, measure_faithfulness
from explanations.learned import LabelledTexts, load_labelled_texts, measure_learned, overlaps

from sase_hf.data.arguments import SPLITS
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.utils.cli import (
    add_text_column_names,
    errors_in_one_line,
    given_flags,
    make_parser,
    positive_int,
)
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import describe_checkpoint, name_checkpoints

KINDS = (*DISTRIBUTIONS, "lift")
ROWS = ("file", "split", "text_column_names", "label_column_name", "max_samples")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write numbers and plot."""
    flags = build_parser().parse_args(argv)
    with errors_in_one_line(__file__):
        checkpoints = getattr(flags, "checkpoints", [getattr(flags, "checkpoint", None)])
        inputs = [flags.file, flags.train_file, flags.word_list, *checkpoints]
        check_output(flags.record, inputs)
        check_output(flags.plot, [flags.record, *inputs])
        if flags.plot is not None:
            check_figure_path(flags.plot)
        numbers, lines, draw = flags.measure(flags)
        if flags.record is not None:
            write_record(numbers, flags.record)
        if flags.plot is not None:
            save_figure(draw(), flags.plot)
    print(*lines, sep="\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each measure is a command with the name of its function."""
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(required=True, metavar="MEASURE")

    def command(measure: Any, text: str, checkpoints: str, **several: Any) -> Any:
        own = commands.add_parser(measure.__name__, help=text, description=text, allow_abbrev=False)
        own.set_defaults(measure=measure, parser=own, plot=None, word_list=None, train_file=None)
        add = own.add_argument
        add(checkpoints, help="a folder or a name on the Hub", **several)
        add("--file", required=True, help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
        split = "the name of the rows in the record; changes nothing else (default: %(default)s)"
        add("--split", choices=SPLITS, default="validation", help=split)
        add_text_column_names(own)
        add("--label_column_name", help="of labels, may be missing (default: found by name)")
        drawn = "read only this number of rows, drawn at random"
        add("--max_samples", type=positive_int, help=drawn)
        add("--seed", type=int, default=42, help="of all random draws (default: %(default)s)")
        size = "rows in a batch (default: %(default)s)"
        add("--per_device_eval_batch_size", type=positive_int, default=32, help=size)
        add("--record", type=Path, help="file for the numbers, .json")
        return add

    text = "how many words the hops read, how much alike they are"
    add = command(attention, text, "checkpoints", nargs="+")
    add("--names", nargs="+", help="names of the checkpoints; by default their last part")
    add("--word_list", type=Path, help="file with a word on each line, up to a tab; for the lift")
    add("--plot", type=Path, help="file for the medians, .png or .svg")
    text = "whether models need the words that they learned, and learn the same ones"
    add = command(learned, text, "checkpoints", nargs="+")
    add("--names", nargs="+", help="names of the checkpoints; by default their last part")
    add("--train_file", help="rows that a linear model learns from (default: no linear model)")
    add("--num_words", type=positive_int, default=20, help="of a label (default: %(default)s)")
    draws = "of as frequent words, averaged (default: %(default)s)"
    add("--random_draws", type=positive_int, default=5, help=draws)
    scored = {
        faithfulness: "which scores of words explain the predictions",
        agreement: "which scores of words agree with the words that people mark",
    }
    for measure, text in scored.items():
        add = command(measure, text, "checkpoint")
        steps = "--integrated_gradients_steps"
        add(steps, type=int, default=16, help="of the integral; 0 for none (default: 16)")
        orders = "of each text, averaged (default: %(default)s)"
        add("--random_orders", type=int, default=3, help=orders)
        if measure is faithfulness:
            add("--plot", type=Path, help="file for the curves, .png or .svg")
    rated = "file with a word on each line, a tab and its rating; ranks words by its size"
    add("--word_list", type=Path, help=rated)
    return parser


def load(checkpoint: str, flags: argparse.Namespace, **options: Any) -> EvaluationDataset:
    """Load a checkpoint and the rows that the flags choose."""
    chosen = {name: getattr(flags, name) for name in ROWS}
    return load_evaluation_dataset(checkpoint, seed=flags.seed, **chosen, **options)


def record_of(
    flags: argparse.Namespace,
    dataset: EvaluationDataset | LabelledTexts,
    checkpoint: str,
    start: float,
    **own: Any,
) -> dict[str, Any]:
    """Return the record of a measurement since `start`, with its own `name` and `metrics`."""
    [split] = dataset.sources
    record = measured_record(
        split=split,
        sources=dataset.sources,
        seed=flags.seed,
        arguments=given_flags(flags.parser, flags),
        config=dataset.model.config,
        num_parameters=dataset.model.num_parameters(),
        wall_seconds=time.perf_counter() - start,
        **own,
    )
    return {**record, "checkpoint": describe_checkpoint(checkpoint)}


def attention(flags: argparse.Namespace) -> tuple[dict[str, Any], Iterator[str], Any]:
    """Measure the attention of checkpoints; return records by name, a table, and its plot."""
    named = name_checkpoints(flags.checkpoints, flags.names)
    words = read_word_list(flags.word_list) if flags.word_list is not None else ()
    # All are loaded before the first is measured, so that a bad last one costs nothing.
    datasets = {name: load(checkpoint, flags) for name, checkpoint in named.items()}
    records = {}
    for name, dataset in datasets.items():
        start = time.perf_counter()
        statistics = measure_attention(dataset, flags.per_device_eval_batch_size, words)
        means = {kind: statistics[kind]["mean"] for kind in KINDS if kind in statistics}
        record = record_of(flags, dataset, named[name], name=name, metrics=means, start=start)
        records[name] = record | statistics
    return records, attention_table(records), partial(statistics_figure, records)


def attention_table(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each hop of each checkpoint: means, and the middle half of the texts."""
    for name, record in records.items():
        kinds = [kind for kind in KINDS if kind in record]
        yield f"{name}, {record['num_texts']:,} texts"
        yield f"{'hop':>5}" + "".join(f"{kind.replace('_', ' '):>28}" for kind in kinds)
        hops = zip(*(record[kind]["hops"] for kind in kinds), strict=True)
        for number, cells in enumerate(hops, start=1):
            yield f"{number:>5}" + "".join(map(_cell, cells))
        yield " mean" + "".join(_cell(record[kind]) for kind in kinds)


def _cell(numbers: Mapping[str, float]) -> str:
    middle = f" [{numbers['p25']:.3f}, {numbers['p75']:.3f}]" if "p25" in numbers else ""
    return f"{numbers['mean']:.3f}{middle}".rjust(28)


def faithfulness(flags: argparse.Namespace) -> tuple[dict[str, Any], Iterator[str], Any]:
    """Measure the faithfulness of a checkpoint; return its record, a table, and its plot."""
    record = scored_record(flags, load(flags.checkpoint, flags), measure_faithfulness)
    return record, faithfulness_table(record), partial(curves_figure, record["curves"])


def agreement(flags: argparse.Namespace) -> tuple[dict[str, Any], Iterator[str], None]:
    """Measure the agreement of a checkpoint with people; return its record and a table."""
    ratings = read_word_list(flags.word_list) if flags.word_list is not None else None
    dataset = load(flags.checkpoint, flags, with_marks=True)
    record = scored_record(flags, dataset, partial(measure_agreement, ratings=ratings))
    return record, agreement_table(record), None


def scored_record(
    flags: argparse.Namespace, dataset: EvaluationDataset, measure: Any
) -> dict[str, Any]:
    """Return the record of a measurement of all attributions."""
    start = time.perf_counter()
    results = measure(
        dataset,
        integrated_gradients_steps=flags.integrated_gradients_steps,
        random_orders=flags.random_orders,
        batch_size=flags.per_device_eval_batch_size,
        seed=flags.seed,
    )
    name = f"{Path(flags.checkpoint).name} {flags.measure.__name__}"
    own: Any = {"name": name, "metrics": results.pop("metrics")}
    record = record_of(flags, dataset, flags.checkpoint, start, **own)
    if flags.integrated_gradients_steps:
        record["versions"]["captum"] = version("captum")
    return {**record, **results}


def faithfulness_table(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each attribution and each difference, a column for each measure."""
    [source] = record["sources"].values()
    headings = [measure.replace("_area", " AUC") for measure in MEASURES]
    lines = {f"means over {source['rows']:,} texts": [*headings, "cost"]}
    for name in record["curves"]["deletion"]:
        cost = f"{record['cost'][name]:.1f}" if name in record["cost"] else ""
        lines[name] = [*(f"{record['metrics'][f'{name}_{m}']:.3f}" for m in MEASURES), cost]
    for name, difference in record["differences"].items():
        means = (difference[measure] for measure in MEASURES)
        lines[name] = [f"{d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]" for d in means]
    yield from _lines(lines)


def agreement_table(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each attribution."""
    num_texts, unmarked = record["num_texts"], record["num_left_out"]
    left_out = f" ({unmarked:,} without a mark that is read)" if unmarked else ""
    lines = {f"means over {num_texts:,} texts{left_out}": [*AGREEMENT]}
    for name in record["by_length"][0]["average_precision"]:
        found = (record["intervals"].get(f"{name}_{measure}") for measure in AGREEMENT)
        lines[name] = [
            f"{i['mean']:.3f} [{i['low']:.3f}, {i['high']:.3f}]" if i else "" for i in found
        ]
    yield from _lines(lines)


def learned(flags: argparse.Namespace) -> tuple[dict[str, Any], Iterator[str], None]:
    """Measure what checkpoints need of the words they learned; return records and a table."""
    named = name_checkpoints(flags.checkpoints, flags.names)
    records: dict[str, Any] = {}
    words = {}
    for name, checkpoint in named.items():
        start = time.perf_counter()
        texts = labelled_texts(checkpoint, flags.file, flags)
        train = None
        if flags.train_file is not None:
            train = labelled_texts(checkpoint, flags.train_file, flags, texts)
        results, words[name] = measure_learned(
            texts,
            train,
            num_words=flags.num_words,
            random_draws=flags.random_draws,
            seed=flags.seed,
        )
        own: Any = {"name": f"{name} learned", "metrics": results.pop("metrics")}
        records[name] = record_of(flags, texts, checkpoint, start, **own) | results
    for record in records.values():
        record["overlap"] = overlaps(words)
    return records, learned_table(records), None


def labelled_texts(
    checkpoint: str,
    file: str,
    flags: argparse.Namespace,
    of_same_model: LabelledTexts | None = None,
) -> LabelledTexts:
    """Load a checkpoint, unless texts of it are given, and the rows that the flags choose."""
    return load_labelled_texts(
        checkpoint,
        file,
        split=flags.split,
        max_samples=flags.max_samples if of_same_model is None else None,
        seed=flags.seed,
        reader=None if of_same_model is None else of_same_model.reader,
        text_column_names=flags.text_column_names,
        label_column_name=flags.label_column_name,
    )


def learned_table(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each checkpoint, and one for what the lists have in common."""
    kinds = list(next(iter(records.values()))["by_label"])
    without = ["accuracy", *(f"without_{kind}" for kind in kinds)]
    columns = [*without, *(f"without_all_{kind}" for kind in kinds)]
    lines = {"": [column.replace("_", " ") for column in columns]}
    for name, record in records.items():
        lines[name] = [f"{record['metrics'][column]:.3f}" for column in columns]
    yield from _lines(lines)
    for label, share in record["overlap"].items():
        yield f"words that two lists for {label} share: {share:.2f} of those in either"


def _lines(lines: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, cells in lines.items():
        yield f"{name.replace('_', ' '):<48}" + "".join(f"{cell:>24}" for cell in cells)


if __name__ == "__main__":
    main()
