"""Embed a corpus of any size: one row of Parquet for each text, in the order of the input.

    sase_hf embed runs/mine reviews.parquet more.jsonl.gz --output runs/mine_embeddings
    sase_hf embed OWNER/NAME --dataset_name stanfordnlp/imdb --split test --output imdb

`load_dataset(FOLDER)` reads the output; the embeddings are in its column `embedding`. Every shard
is either whole or missing, so an interrupted run continues when its command is given again, also
with another number of processes or another --batch_tokens. Other settings, another model and
another input are refused.

Several GPUs, or processes, share the shards:

    torchrun --nproc_per_node 8 -m sase_hf embed ...
    accelerate launch --multi_gpu --num_processes 8 -m sase_hf embed ...

With --ray a Ray cluster does the work (`pip install 'sase_hf[ray]'`): one actor for each GPU, or
for each core without a GPU. All machines must see the input and the output folder.
"""

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from ..embedding import DTYPES, PRECISIONS, EmbeddingJob, embed_corpus, embed_with_ray
from ..utils.cli import errors_in_one_line, make_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Embed a corpus."""
    settings = vars(_parser().parse_intermixed_args(argv))
    ray, inputs = settings.pop("ray", None), tuple(settings.pop("inputs", ()))
    if "keep_columns" in settings:
        names = map(str.strip, settings["keep_columns"].split(","))
        settings["keep_columns"] = tuple(filter(None, names))
    # torchrun and accelerate launch set the number of this process in the environment.
    process, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sase_hf.embedding.run").setLevel(logging.INFO)
    with errors_in_one_line(__file__, on_interrupt="stopped; the same command continues"):
        job = EmbeddingJob(inputs=inputs, **settings)
        if ray is None:
            num_finished, num_shards = embed_corpus(job, process, processes)
        else:
            num_finished, num_shards = embed_with_ray(job, ray or None)
    note = f"load_dataset({str(job.output)!r}) reads them"
    if num_finished < num_shards:
        shards = f"{num_finished} of {num_shards} shards are finished"
        note = f"{shards}; the other processes make the rest"
    if process == 0 or num_finished == num_shards:  # the last process, whichever it is
        print(f"{'embeddings':<12}{job.output}: {note}")


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the flags: the fields of `EmbeddingJob`, and `--ray`."""
    parser = make_parser(__doc__, argument_default=argparse.SUPPRESS)
    add, default = parser.add_argument, EmbeddingJob
    add("checkpoint", help="a folder or a name on the Hub; for a head, its base model")
    add("inputs", nargs="*", help="Parquet, CSV, TSV, JSON or JSON Lines files (these also .gz)")
    add("--output", type=Path, required=True, metavar="FOLDER", help="the folder of the shards")
    add("--dataset_name", help="a dataset on the Hub, instead of files")
    add("--dataset_config_name", help="one of its configurations")
    add("--dataset_revision", help="its commit, tag or branch")
    add("--split", help=f"its split (default: {default.split})")
    add("--text_column_names", metavar="NAME", help="the column of texts (default: text)")
    note = 'the columns that go into the output, "id,url"; "" for none (default: all)'
    add("--keep_columns", metavar="NAMES", help=note)
    add("--revision", help="commit, tag or branch of the checkpoint on the Hub")
    add("--max_seq_length", type=int, help="tokens after which a text is cut")
    add("--normalize", action="store_true", help="scale every embedding to length 1")
    add("--dtype", choices=DTYPES, help=f"type of the stored numbers (default: {default.dtype})")
    note = (
        "precision of the computation (default: that of the output folder; of a new one bf16, if "
        "the device computes faster in it)"
    )
    add("--precision", choices=PRECISIONS, help=note)
    note = f"max tokens in a batch, padding included (default: {default.batch_tokens})"
    add("--batch_tokens", type=int, help=note)
    note = "rows in a shard (default: a sixteenth of all, 1,000 to 100,000, at most 256 MiB)"
    add("--rows_per_shard", type=int, help=note)
    add("--device", help="device of the computation (default: a GPU if there is one)")
    note = "run on a Ray cluster, by default the one of this machine, started if needed"
    add("--ray", nargs="?", const="", metavar="ADDRESS", help=note)
    return parser
