"""Export a checkpoint for ONNX Runtime, which needs no torch, or as one HTML file.

    sase_hf export runs/mine exported
    python exported/predictor.py "The room was small, but not bad."

    sase_hf export runs/mine mine.html

The HTML file holds a classifier with a BiLSTM and attention: opened in a browser, it reads what is
typed, without a server or a network. Its word vectors are int8, and the rest is float16.

The ONNX graph takes batches of any size and texts of any length. Before anything is left in the
folder, it is compared with the checkpoint on lengths, paddings and batch sizes that the exporter
has not seen.

ONNX needs `pip install 'sase_hf[onnx]'`. An encoder alone gives embeddings; to export the encoder
of a head, save it first: AutoModel.from_pretrained("runs/mine").save_pretrained("encoder").
"""

from collections.abc import Sequence

from ..serving.html_export import live_page
from ..serving.onnx_export import MODEL, export
from ..utils.cli import errors_in_one_line, make_parser
from ..utils.files import check_output, write_text


def main(argv: Sequence[str] | None = None) -> None:
    """Export, and print how far the export is from the checkpoint."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("output", metavar="OUT", help="a new folder, or a file that ends in .html")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.output.endswith(".html"):
            check_output(flags.output, [flags.checkpoint])
            page = live_page(flags.checkpoint)
            write_text(flags.output, page)
            print(f"{flags.output}: {len(page.encode()):,} bytes; its weights are rounded")
            return
        report = export(flags.checkpoint, flags.output)
    difference = f"{report['largest_difference']:.1e} of the largest output"
    print(f"{flags.output}/{MODEL}: max difference {difference} on random texts")
