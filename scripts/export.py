"""Export a checkpoint for onnxruntime, which needs no torch.

    python scripts/export.py runs/mine exported
    python exported/predictor.py "The room was small, but not bad."

The graph takes batches of any size and texts of any length. Before anything is left in the folder,
it is compared with the checkpoint on lengths, paddings and batch sizes that the export has not
seen. `--int8` adds a file with int8 weights; what that costs and gains is measured on `--data`:

    python scripts/export.py runs/mine exported --int8 --data reviews.test.jsonl

Needs `pip install 'sase_hf[onnx]'`. An encoder alone gives embeddings; to export that of a head,
save it first: AutoModel.from_pretrained("runs/mine").save_pretrained("encoder").
"""

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sase_hf.data.task import TaskData
from sase_hf.evaluation.dataset import read_file
from sase_hf.serving.onnx_export import export
from sase_hf.utils.cli import column_names
from sase_hf.utils.loading import load_checkpoint


def main(argv: Sequence[str] | None = None) -> None:
    """Export, and say what was compared and measured.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    flags = read_flags(argv)
    try:
        task = read_task(flags) if flags.file else None
        report = export(flags.checkpoint, flags.folder, int8=flags.int8, task=task)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"export.py: {error}")
    print(*lines(report, flags.folder), sep="\n")


def read_flags(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the flags of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("folder", metavar="OUT", help="a new or empty folder")
    add("--int8", action="store_true", help="also write model_int8.onnx")
    add(
        "--data",
        dest="file",
        metavar="FILE",
        help="measure on it: CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet",
    )
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
        help="the column of labels, which may be missing (default: %(default)s)",
    )
    return parser.parse_args(argv)


def read_task(flags: argparse.Namespace) -> TaskData:
    """Read the rows to measure on, before the work of the export."""
    model, _ = load_checkpoint(flags.checkpoint)
    if not model.is_head:  # an encoder has no labels to compare with
        flags.label_column_name = ""
    return read_file(flags.checkpoint, model, flags)


def lines(report: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Yield the lines that say what was written, how exact it is, and what was measured."""
    for name, file in report["files"].items():
        apart = f"{file['largest_difference']:.1e} of the largest output"
        yield f"{name:<16} {file['bytes']:>13,} bytes, off by at most {apart} on random texts"
    if "measured" not in report:
        if len(report["files"]) > 1:
            yield "the accuracy with int8 weights is not known; --data FILE measures it"
    else:
        source = report["measured"]["source"]
        yield f"on {source['rows']:,} rows of {source['file']}:"
        for name, results in report["measured"]["results"].items():
            measured = (f"{metric} {value:.4g}" for metric, value in results.items())
            yield f"  {name:<16} {', '.join(measured)}"
    texts = ("a text", "another text") if "token_type_ids" in report["inputs"] else ("a text",)
    yield shlex.join(["python", f"{folder}/predictor.py", *texts])


if __name__ == "__main__":
    main()
