"""Embed the texts of a file of any size: one row of Parquet for each, in the order of the input.

    sase_hf embed runs/mine reviews.jsonl.gz --output reviews.parquet
    sase_hf embed OWNER/NAME corpus.parquet --text_column_names body --output runs/corpus.parquet

The output has the columns of the input and the column `embedding`, which replaces one of this name,
and is written whole or not at all. --text_column_names names the column of texts, by default that
of the training, else found by its usual name; --precision chooses how it computes. For a dataset on
the Hub, or on a cluster, `Embedder` does the same to batches of columns.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from ..retrieval.embed import PRECISIONS, Embedder, facts_of, open_rows
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser
from ..utils.files import atomic_write, check_output, scratch_file
from ..utils.process import is_fast_in_bfloat16, limit_compiled_code

ROWS = 2_000  # in memory at once


def main(argv: Sequence[str] | None = None) -> None:
    """Embed a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub; for a head, its base model")
    add("file", help="CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet")
    add("--output", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    add_text_column_names(parser)
    note = "precision of the computation (default: bf16 if the device computes faster in it)"
    add("--precision", choices=PRECISIONS, help=note)
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        limit_compiled_code()
        check_output(flags.output, [flags.file, flags.checkpoint])
        rows, column = open_rows(flags.file, flags.text_column_names, flags.checkpoint)
        precision = flags.precision or ("bf16" if is_fast_in_bfloat16() else "float32")
        embedder = Embedder(flags.checkpoint, text_column_names=column, precision=precision)
        embedded = rows.map(
            embedder,
            batched=True,
            batch_size=ROWS,
            cache_file_name=scratch_file(),
            new_fingerprint=embedder.model_sha256,
            load_from_cache_file=False,
            desc=f"Embedding {column}",
        )
        written = embedded.data.table.replace_schema_metadata(
            {**embedded.features.arrow_schema.metadata, **facts_of(embedder)}
        )
        with atomic_write(flags.output) as draft:
            pq.write_table(written, draft)
    print(f"load_dataset('parquet', data_files={str(flags.output)!r}) reads the embeddings")
