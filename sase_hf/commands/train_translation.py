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
"""

from collections.abc import Sequence

from ..tasks import TranslationTask
from .training_frame import run_script


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    run_script(__file__, __doc__, argv, TranslationTask)
