"""Train, evaluate and run a translation model: RNNsearch, or RNNencdec without attention.

The first command trains on a file with two text columns (CSV, TSV, JSON, JSON Lines, all also .gz,
or Parquet), with sizes for thousands of pairs; the second translates new rows:

    python scripts/train_translation.py --train_file pairs.csv
    python scripts/train_translation.py --model_name_or_path runs/pairs-translator
        --test_file new.csv --generation_num_beams 12

A recipe holds every setting of a run; flags after the recipe override its entries:

    python scripts/train_translation.py scripts/recipes/translation/bpe.yaml

BLEU needs `pip install 'sase_hf[translation]'`. An interrupted run continues when its command is
given again with --resume_from_checkpoint. Several GPUs, or processes, take:
torchrun --standalone --nproc_per_node 2 scripts/train_translation.py ...
"""

from collections.abc import Sequence

from train import run_script

from sase_hf.tasks import TranslationTask


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    run_script(__file__, __doc__, argv, TranslationTask)


if __name__ == "__main__":
    main()
