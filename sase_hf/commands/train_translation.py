"""Train, evaluate and run a translation model: RNNsearch, or RNNencdec without attention.

The first command trains on a file with two text columns (CSV, TSV, JSON, JSON Lines, all also .gz,
or Parquet), with sizes for thousands of pairs; the second translates new rows:

    sase_hf train_translation --train_file pairs.csv
    sase_hf train_translation --model_name_or_path runs/pairs-translator
        --test_file new.csv --generation_num_beams 12

A recipe holds every setting of a run; flags after the recipe override its entries:

    sase_hf train_translation scripts/recipes/translation/bpe.yaml

BLEU needs `pip install 'sase_hf[translation]'`. An interrupted run continues when its command is
given again with --resume_from_checkpoint. Several GPUs, or processes, take:
torchrun --standalone --nproc_per_node 2 -m sase_hf train_translation ...

The usual flags, beside those of transformers' TrainingArguments:

    --train_file FILE                 rows to learn from
    --validation_file FILE            rows to evaluate on (default: a tenth of the training rows)
    --test_file FILE                  rows to translate
    --text_column_names NAMES         two columns, source and target: en,de
    --both_directions                 one model for both
    --model_name_or_path NAME         a checkpoint to start from or to evaluate
    --subwords                        cut rare words into pieces
    --vocab_size N                    the largest vocabulary
    --has_attention false             RNNencdec, the baseline
    --generation_num_beams N          translations that a beam search keeps
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
    from ..tasks import TranslationTask  # imports torch
    from .training_frame import run_script

    run_script(__file__, __doc__, argv, TranslationTask)
