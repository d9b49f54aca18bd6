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

The usual flags, beside those of transformers' TrainingArguments:

    --train_file FILE                 rows to learn from
    --validation_file FILE            rows to evaluate on (default: a tenth of the training rows)
    --text_column_names NAMES         two columns, query and document: title,body
    --model_name_or_path NAME         a checkpoint to start from or to evaluate
    --encoder_name_or_path NAME       a pretrained encoder under the attention, such as BERT
    --word_vectors FILE ...           GloVe, word2vec, fastText or a static embedding; own; none
    --max_tokens N                    tokens of a text that are read, the first ones
    --num_hops N                      rows of the attention
    --score_mode NAME                 rows or flat
    --output_dir FOLDER               the model and all results (default: runs/ and the file)
    --num_train_epochs N              passes over the rows; 0 chooses
    --learning_rate X                 the largest of the schedule
    --per_device_train_batch_size N   rows per process and step
    --seed N                          of the order, the first weights and dropout
    --resume_from_checkpoint [FOLDER] continue an interrupted run
    --record FILE                     metrics, data, seed, versions and hardware as JSON
"""

from collections.abc import Sequence

from ..data.arguments import PairArguments
from .checked_files import check_files


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    check_files(__file__, argv, PairArguments)
    from ..tasks import RetrievalTask  # imports torch
    from .training_frame import run_script

    run_script(__file__, __doc__, argv, RetrievalTask)
