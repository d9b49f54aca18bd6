"""Embed a corpus of any size: one row of Parquet for each text, in the order of the input.

    python scripts/embed.py runs/mine reviews.parquet more.jsonl.gz --output runs/mine_embeddings
    python scripts/embed.py OWNER/NAME --dataset_name stanfordnlp/imdb --split test --output imdb

The output is read with `load_dataset(FOLDER)`; the embeddings are in its column `embedding`. Every
shard is either whole or not there, so an interrupted run goes on when its command is given again,
with another number of processes or another --batch_tokens too. Other settings, another model or
another input are refused.

Several GPUs, or processes, share the shards:

    torchrun --nproc_per_node 8 scripts/embed.py ...
    accelerate launch --multi_gpu --num_processes 8 scripts/embed.py ...

A Ray cluster does so with --ray (`pip install 'sase_hf[ray]'`): one actor for each GPU, or for each
core where there is none. All machines must see the input and the output folder.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from sase_hf.embedding import DTYPES, EmbeddingJob, embed_corpus, embed_with_ray

LOCAL_RAY = ""  # what --ray without an address says


def main(argv: Sequence[str] | None = None) -> None:
    """Embed, and say how much there is of it.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    flags = build_parser().parse_intermixed_args(argv)
    # torchrun and accelerate launch say in the environment which process this is.
    process, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    logging.basicConfig(format="%(message)s")
    if process == 0:
        logging.getLogger("sase_hf.embedding").setLevel(logging.INFO)
    try:
        names = {field.name for field in fields(EmbeddingJob)}
        given = {name: value for name, value in vars(flags).items() if name in names}
        job = EmbeddingJob(**{**given, "inputs": tuple(flags.inputs)})
        if flags.ray is None:
            embed_corpus(job, process, processes)
        else:
            embed_with_ray(job, flags.ray or None)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        sys.exit(f"embed.py: {error}")
    except KeyboardInterrupt:
        sys.exit("embed.py: stopped; the same command goes on")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's flags."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_input_flags(parser)
    _add_embedding_flags(parser)
    parser.add_argument(
        "--ray",
        nargs="?",
        const=LOCAL_RAY,
        metavar="ADDRESS",
        help="run on a Ray cluster, by default the one of this machine, started if need be",
    )
    return parser


def _add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Add what is read and what is kept of it."""
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub; of a head the base model is used")
    add(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="Parquet files, or CSV, TSV, JSON and JSON Lines files (all also .gz)",
    )
    add("--output", type=Path, required=True, metavar="FOLDER", help="where the shards go")
    add("--dataset_name", help="a data set on the Hub, instead of files")
    add("--dataset_config_name", help="which of its configurations")
    add("--dataset_revision", help="its commit, tag or branch")
    add("--split", default="train", help="its split (default: %(default)s)")
    add(
        "--text_column_names",
        default="text",
        metavar="NAME",
        help="the column of texts (default: %(default)s)",
    )
    add(
        "--keep_columns",
        type=_names,
        metavar="NAMES",
        help='the columns that go into the output, "id,url"; "" for none (default: all)',
    )


def _add_embedding_flags(parser: argparse.ArgumentParser) -> None:
    """Add how it is embedded and stored."""
    add = parser.add_argument
    add("--revision", help="commit, tag or branch of the checkpoint on the Hub")
    add("--max_seq_length", type=int, help="tokens after which a text is cut")
    add("--normalize", action="store_true", help="scale every embedding to length 1")
    add(
        "--dtype",
        choices=DTYPES,
        default=DTYPES[0],
        help="what embeddings are stored in (default: %(default)s)",
    )
    add("--bf16", action="store_true", help="compute in bfloat16: faster, a little less exact")
    add(
        "--batch_tokens",
        type=int,
        default=EmbeddingJob.batch_tokens,
        help="tokens that are read at once, padding included; changes no result "
        "(default: %(default)s)",
    )
    add(
        "--rows_per_shard",
        type=int,
        help="(default: up to 100,000, fewer where embeddings would take more than 256 MiB)",
    )
    add("--device", help="where to compute (default: a GPU if there is one)")


def _names(given: str) -> tuple[str, ...]:
    """Split the names of columns at the comma."""
    return tuple(name.strip() for name in given.split(",") if name.strip())


if __name__ == "__main__":
    main()
