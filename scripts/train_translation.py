"""Train, evaluate and run a translation model: RNNsearch, or RNNencdec without attention.

A recipe holds every setting of a run; flags after the recipe override its entries:

    python scripts/train_translation.py scripts/recipes/translation/bpe.yaml

Files of your own have two text columns (CSV, TSV, JSON, JSON Lines, all also .gz, or Parquet):

    python scripts/train_translation.py --do_train --train_file train.csv --do_eval
        --validation_file dev.csv --text_column_names english,french --output_dir runs/mine

This command translates new rows, or evaluates a checkpoint with another beam:

    python scripts/train_translation.py --model_name_or_path runs/mine --do_predict
        --test_file new.csv --text_column_names english,french --generation_num_beams 12

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
