"""Embed the texts of a file of any size: one row of Parquet for each, in the order of the input.

    sase_hf embed runs/mine reviews.jsonl.gz --output reviews.parquet
    sase_hf embed OWNER/NAME corpus.parquet --text_column_names body --output runs/corpus.parquet

The output has the columns of the input and the column `embedding`, and is written whole or not at
all. --text_column_names names another column than `text`; --normalize scales each embedding to
length 1; --precision, --device and --revision choose how, where and which checkpoint computes. For
a dataset on the Hub, or on a cluster, `Embedder` does the same to batches of columns.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset
from transformers.utils import logging

from ..retrieval.embed import COLUMN, MODEL_KEY, PRECISIONS, TEXT_KEY, Embedder, open_rows
from ..utils.cli import errors_in_one_line, make_parser
from ..utils.files import atomic_write, check_output
from ..utils.precision import is_fast_in_bfloat16
from ..utils.process import limit_compiled_code

ROWS = 2_000  # in memory at once


def main(argv: Sequence[str] | None = None) -> None:
    """Embed a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub; for a head, its base model")
    add("file", help="CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet")
    add("--output", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    add("--text_column_names", default="text", metavar="NAME", help="of the texts (default: text)")
    add("--revision", help="commit, tag or branch of the checkpoint on the Hub")
    add("--normalize", action="store_true", help="scale every embedding to length 1")
    note = "precision of the computation (default: bf16 if the device computes faster in it)"
    add("--precision", choices=PRECISIONS, help=note)
    add("--device", help="device of the computation (default: a GPU if there is one)")
    settings = vars(parser.parse_args(argv))
    file, output = settings.pop("file"), settings.pop("output")
    with errors_in_one_line(__file__):
        limit_compiled_code()
        check_output(output, [file, settings["checkpoint"]])
        if settings["precision"] is None:
            is_fast = is_fast_in_bfloat16(use_cpu=settings["device"] == "cpu")
            settings["precision"] = "bf16" if is_fast else "float32"
        embedder = Embedder(**settings)
        write_embeddings(embedder, open_rows(file, embedder.text_column_names), output)
    print(f"load_dataset('parquet', data_files={str(output)!r}) reads the embeddings")


def write_embeddings(embedder: Embedder, rows: Dataset, output: Path) -> None:
    """Write rows and their embeddings to a Parquet file, whole or not at all."""
    if COLUMN in rows.column_names:
        raise ValueError(f"the input has a column {COLUMN!r}; rename it")
    schema = rows.features.arrow_schema
    schema = schema.append(pa.field(COLUMN, pa.list_(pa.float32(), embedder.size)))
    facts = {MODEL_KEY: embedder.model_sha256, TEXT_KEY: embedder.text_column_names}
    schema = schema.with_metadata({**schema.metadata, **facts})
    with (
        atomic_write(output) as draft,
        pq.ParquetWriter(draft, schema, use_dictionary=rows.column_names) as writer,
        logging.tqdm(desc="Embedding", total=len(rows), unit=" rows") as bar,
    ):
        for table in rows.with_format("arrow").iter(ROWS):
            embeddings = embedder.embed(table[embedder.text_column_names].to_pylist())
            column = pa.FixedSizeListArray.from_arrays(embeddings.reshape(-1), embedder.size)
            writer.write_table(pa.table([*table.columns, column], schema=schema))
            bar.update(len(table))
