"""Export a checkpoint for ONNX Runtime, which needs no torch, or as one HTML file.

    sase_hf export runs/mine exported
    python exported/predictor.py "The room was small, but not bad."

    sase_hf export runs/mine mine.html

The HTML file holds a classifier with a BiLSTM and attention: opened in a browser, it reads what is
typed, without a server or a network. --float32 keeps its weights exact; by default the word vectors
are int8 and the rest is float16.

The ONNX graph takes batches of any size and texts of any length. Before anything is left in the
folder, it is compared with the checkpoint on lengths, paddings and batch sizes that the exporter
has not seen. `--int8` adds a graph with int8 weights; `--data` compares both graphs with the
checkpoint on texts of your own, whose columns --text_column_names can name:

    sase_hf export runs/mine exported --int8 --data reviews.test.jsonl

ONNX needs `pip install 'sase_hf[onnx]'`. An encoder alone gives embeddings; to export the encoder
of a head, save it first: AutoModel.from_pretrained("runs/mine").save_pretrained("encoder").
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..serving.html_export import live_page
from ..serving.onnx_export import export
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser
from ..utils.files import check_output, write_text


def main(argv: Sequence[str] | None = None) -> None:
    """Export, and print how far each graph is from the checkpoint."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("output", metavar="OUT", help="a new folder, or a file that ends in .html")
    add("--int8", action="store_true", help="also write model_int8.onnx")
    add("--float32", action="store_true", help="exact weights in the HTML file")
    formats = "compare on it: CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet"
    add("--data", metavar="FILE", help=formats)
    add_text_column_names(parser)
    flags = parser.parse_args(argv)
    is_page = flags.output.endswith(".html")
    with errors_in_one_line(__file__):
        unused = ("int8", "data", "text_column_names") if is_page else ("float32",)
        if given := [f"--{name}" for name in unused if getattr(flags, name)]:
            other = "a folder" if is_page else "a file that ends in .html"
            raise ValueError(f"{', '.join(given)} is for {other}, not {flags.output}; leave it out")
        if is_page:
            check_output(flags.output, [flags.checkpoint])
            page, difference = live_page(flags.checkpoint, float32=flags.float32)
            write_text(flags.output, page)
            change = f"change the logits of random texts by up to {difference:.2%} of the largest"
            exactness = "weights are exact" if flags.float32 else f"rounded weights {change}"
            print(f"{flags.output}: {len(page.encode()):,} bytes; {exactness}")
            return
        report = export(
            flags.checkpoint,
            flags.output,
            int8=flags.int8,
            data=flags.data,
            text_column_names=flags.text_column_names,
        )
    print(*lines(report, flags.output), sep="\n")


def lines(report: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Yield the written files, their exactness, and the command that reads a text with them."""
    for name, file in report["files"].items():
        difference = f"{file['largest_difference']:.1e} of the largest output"
        yield f"{name:<16} {file['bytes']:>13,} bytes, max difference {difference} on random texts"
    if "measured" in report:
        source = report["measured"]["source"]
        yield f"on {source['rows']:,} rows of {source['file']}:"
        for name, results in report["measured"]["results"].items():
            measured = (f"{metric} {value:.4g}" for metric, value in results.items())
            yield f"  {name:<16} {', '.join(measured)}"
    elif len(report["files"]) > 1:
        yield "agreement with int8 weights on real texts is not known; --data FILE measures it"
    texts = ("a text", "another text") if "token_type_ids" in report["inputs"] else ("a text",)
    yield shlex.join(["python", f"{folder}/predictor.py", *texts])
