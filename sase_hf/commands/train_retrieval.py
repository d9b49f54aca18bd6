"""Train and evaluate a model that ranks documents for short queries.

A recipe holds every setting of a run; flags after the recipe override its entries. The first two
commands make the pairs, each a sentence and the review that it was taken from:

    python scripts/lab/retrieval_pairs.py data/yelp5.train.jsonl.gz
        runs/pairs/yelp5.similar.train.jsonl.gz --draws 4 --similar_together
    python scripts/lab/retrieval_pairs.py data/yelp5.dev.jsonl.gz runs/pairs/yelp5.dev.jsonl.gz
        --max_rows 2000
    sase_hf train_retrieval scripts/recipes/retrieval/yelp5.yaml

Files of your own have two text columns (CSV, TSV, JSON, JSON Lines, all also .gz, or Parquet):

    sase_hf train_retrieval --train_file pairs.csv --text_column_names title,body

Each query learns to find its own document among those of its batch, so larger batches teach more;
accumulated batches do not count as one, several processes do. An evaluation ranks all documents of
its file for each query: mean reciprocal rank, recall at 1 and at 10.

An interrupted run continues when its command is given again with --resume_from_checkpoint. Several
GPUs, or processes, take:
torchrun --standalone --nproc_per_node 2 -m sase_hf train_retrieval ...
"""

from collections.abc import Sequence

from ..tasks import RetrievalTask
from .training_frame import run_script


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    run_script(__file__, __doc__, argv, RetrievalTask)
