"""How fast the package is, beside a plain implementation and beside what the machine could do.

    python scripts/benchmark.py --record model_cards/records/benchmark.json --plot lengths.svg

takes long, since the plain implementation is slow on documents. A first look takes a minute or two
of one thread:

    python scripts/benchmark.py --quick

Everything that is compared runs in turn, in one process and on the same texts, and every ratio is
the median of the ratios of each round: other work on the machine then slows all of them. The plain
implementation (scripts/benchmarking/plain.py) has copies of the same weights, and the logits are
compared before anything is timed.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import torch
from benchmarking import report
from benchmarking.comparison import Options, Result
from benchmarking.inference import BATCHES, embeddings, inference, pipelines
from benchmarking.settings import CLASSIFIERS
from benchmarking.timing import Budget
from benchmarking.training import ceiling, lengths, memory, optimisers, steps
from benchmarking.workloads import WORKLOADS
from huggingface_hub.utils.tqdm import tqdm

PARTS = (
    "ceilings",
    "steps",
    "inference",
    "lengths",
    "memory",
    "pipeline",
    "embedding",
    "optimisers",
)
LENGTHS = (250, 500, 1000, 2000, 4000)

# What the flags are by default: for a full run, and for --quick.
FULL = {
    "rounds": 7,
    "seconds": 60.0,
    "num_texts": 10_000,
    "workloads": list(WORKLOADS),
    "classifiers": list(CLASSIFIERS),
    "lengths": list(LENGTHS),
}
QUICK = {
    "rounds": 3,
    "seconds": 5.0,
    "num_texts": 200,
    "workloads": ["tweets"],
    "classifiers": ["mlp2000"],
    "lengths": [100, 200],
}
SIZES = (
    "vocab_size",
    "embedding_size",
    "lstm_hidden_size",
    "attention_size",
    "num_hops",
    "classifier_hidden_size",
    "pruned_row_size",
    "pruned_column_size",
)
PRODUCT_SIZE = {"cpu": 4096, "cuda": 8192}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, print tables and write the record.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    words = read_words(argv)
    torch.set_num_threads(words.threads)
    options = options_of(words)
    started = time.perf_counter()
    try:
        results = measure(options, words.only)
    except RuntimeError as error:
        sys.exit(f"benchmark.py: {error}")
    for name, growth in report.exponents(results.get("lengths", [])).items():
        print(f"{name}: time grows as length ** {growth['seconds']:.2f}, ", end="")
        print(f"memory as length ** {growth['peak_mib']:.2f}")
    if words.record:
        seconds = time.perf_counter() - started
        report.write_record(report.record(results, options, given(words), seconds), words.record)
        print(f"record  {words.record}")
    if words.plot:
        report.plot(results["lengths"], words.plot)
        print(f"plot    {words.plot}")


def measure(options: Options, parts: Sequence[str]) -> report.Results:
    """Run every comparison of some parts, printing a table as each ends.

    Raises:
        RuntimeError: If two models that are compared do not compute the same.
    """
    results: report.Results = {}
    waiting = list(tasks(options, parts))
    progress = tqdm(waiting, unit="comparison", disable=None)  # type: ignore[no-untyped-call]
    for part, title, task in progress:
        progress.set_description(f"{part} {title}".strip())
        result = task()
        if result is None:
            tqdm.write(f"{part} {title}: left out, its batches would fill the memory\n")
            continue
        results.setdefault(part, []).append(result)
        tqdm.write("\n".join([*report.table(part, result), ""]))
    return results


def read_words(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line with its defaults, or end with what is wrong about it."""
    words = flags().parse_args(argv)
    for name, value in (QUICK if words.quick else FULL).items():
        if getattr(words, name) is None:
            setattr(words, name, value)
    wrong = None
    if words.device == "cuda" and not torch.cuda.is_available():
        wrong = "--device cuda, but torch sees no GPU; use --device cpu"
    elif words.plot and ("lengths" not in words.only or len(words.lengths) < 2):
        wrong = "--plot draws the part lengths; measure it at two lengths or more"
    elif words.plot and importlib.util.find_spec("matplotlib") is None:
        wrong = f"--plot: {report.NO_MATPLOTLIB}"
    if wrong:
        sys.exit(f"benchmark.py: {wrong}")
    return words


def flags() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="less of everything")
    add("--only", type=choice_of(PARTS), default=list(PARTS), help=f"parts of {', '.join(PARTS)}")
    add("--workloads", type=choice_of(WORKLOADS), help=f"of {', '.join(WORKLOADS)}")
    add("--classifiers", type=choice_of(CLASSIFIERS), help=f"of {', '.join(CLASSIFIERS)}")
    add("--lengths", type=numbers, help="tokens of the longest text, for the cost against length")
    add("--num_texts", type=positive, help="in the list that is read or embedded")
    add("--rounds", type=positive, help="of each comparison")
    add("--seconds", type=float, help="after which a comparison begins no further round")
    add("--device", choices=list(PRODUCT_SIZE), default="cpu", help="where everything runs")
    add("--threads", type=positive, default=1, help="of the CPU")
    add("--seed", type=int, default=0, help="of weights and texts")
    add("--fields", type=field_values, default={}, help="other sizes: num_hops=10,vocab_size=500")
    add("--record", help="JSON file for what was measured, and on what")
    add("--plot", help="picture of the cost against length, .svg or .png; needs matplotlib")
    return parser


def options_of(words: argparse.Namespace) -> Options:
    """Return the options that a command line means."""
    shrink = 4 if words.quick else 1
    return Options(
        device=torch.device(words.device),
        seed=words.seed,
        budget=Budget(words.rounds, words.seconds),
        product_size=PRODUCT_SIZE[words.device] // shrink,
        stream_bytes=2**28 // shrink,
        max_batches=2 if words.quick else max(one.num_batches for one in WORKLOADS.values()),
        **{name: getattr(words, name) for name in ("workloads", "classifiers", "lengths")},
        num_texts=words.num_texts,
        fields=words.fields,
    )


def tasks(
    options: Options, parts: Sequence[str]
) -> Iterator[tuple[str, str, Callable[[], Result | None]]]:
    """Yield the comparisons of some parts: the part, a title and what to call."""
    both = [(name, whole) for name in options.workloads for whole in (False, True)]
    every: dict[str, dict[str, Callable[[], Result | None]]] = {
        "ceilings": {"": partial(ceiling, options)},
        "steps": {
            f"{name} {classifier or 'encoder'}": partial(steps, options, name, classifier)
            for name in options.workloads
            # In documents the classifier is too small a part to be worth a comparison.
            for classifier in (None, *(options.classifiers if name != "documents" else ()))
        },
        "inference": {
            f"{name} {size}": partial(inference, options, name, size)
            for name in options.workloads
            for size in BATCHES
        },
        "lengths": {f"{size}": partial(lengths, options, size) for size in options.lengths},
        "memory": {
            f"{name} {'whole' if whole else 'encoder'}": partial(memory, options, name, whole)
            for name, whole in both
        },
        "pipeline": {
            f"{count} texts": partial(pipelines, options, count) for count in (1, options.num_texts)
        },
        "embedding": {
            f"{options.num_texts} texts": partial(embeddings, options, options.num_texts)
        },
        "optimisers": {"": partial(optimisers, options)},
    }
    for part in parts:
        yield from ((part, title, task) for title, task in every[part].items())


def given(words: argparse.Namespace) -> dict[str, object]:
    """Return the settings of a run as its record keeps them."""
    return {name: value for name, value in vars(words).items() if name not in ("record", "plot")}


def choice_of(allowed: Collection[str]) -> Callable[[str], list[str]]:
    """Return what reads some of the allowed names, with commas between."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(
                    f"{name!r} is none of {', '.join(allowed)}; put commas between several"
                )
        return names

    return read


def positive(text: str) -> int:
    """Read a number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 1 or more")
    return int(text)


def numbers(text: str) -> list[int]:
    """Read numbers above 0 with commas between."""
    return [positive(number) for number in text.split(",")]


def field_values(text: str) -> dict[str, int]:
    """Read fields of the config and their sizes, `name=number` with commas between."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    for name, _, _ in pairs:
        if name not in SIZES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SIZES)}")
    return {name: positive(number) for name, _, number in pairs}


if __name__ == "__main__":
    main()
