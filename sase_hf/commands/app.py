"""Open a page to try a model: type a text, see its label and its attention.

    pip install '.[demo]'
    sase_hf app runs/quickstart/model

prints the address of the page, which only this machine can reach; `--host 0.0.0.0` opens it to the
network. A model of pairs gets two fields. `--examples` takes examples from a file:

    sase_hf app runs/snli --examples pairs.csv --text_column_names premise,hypothesis
"""

from collections.abc import Sequence

from ..data.rows_for_model import rows_for_model
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser
from ..utils.loading import load_pipeline


def main(argv: Sequence[str] | None = None) -> None:
    """Serve the page until it is interrupted."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder, or a name on the Hub")
    add("--title", help="the heading of the page")
    formats = "CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet"
    add("--examples", metavar="FILE", help=formats)
    add_text_column_names(parser)
    add("--host", help="address to listen on (default: this machine only)")
    add("--port", type=int, help="(default: the first free one from 7860 on)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        from sase_hf.serving.demo import TITLE, build_page, serve  # needs gradio

        explain = load_pipeline(flags.checkpoint)
        examples = []
        if flags.examples is not None:
            model = explain.model
            columns = flags.text_column_names
            task = rows_for_model(
                flags.checkpoint, model, flags.examples, columns, label_column_name=""
            )
            examples = [list(row.values()) for row in task.splits["test"].to_list()]
        page = build_page(explain, flags.title or TITLE, examples)
        address = serve(page, flags.host, flags.port)
        print(f"page        {address} (Ctrl+C ends it)", flush=True)
        page.block_thread()
