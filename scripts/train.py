"""Train, evaluate and predict: labels, sets of labels or numbers for texts and pairs of texts.

From a recipe, which holds every setting of a run; flags after it win over what it says:

    python scripts/train.py scripts/recipes/yelp5.yaml --output_dir runs/yelp5

From files of your own, CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet; two text columns make
a model for pairs:

    python scripts/train.py --do_train --train_file train.csv --do_eval --validation_file dev.csv
        --text_column_names premise,hypothesis --output_dir runs/mine

In a minute on a CPU, on the corpus that the project makes itself:

    python scripts/synthetic_corpus.py data/synthetic
    python scripts/train.py scripts/recipes/synthetic_reviews.yaml

To evaluate a checkpoint, or to predict the labels of new rows:

    python scripts/train.py --model_name_or_path runs/mine --do_eval --validation_file dev.csv
    python scripts/train.py --model_name_or_path runs/mine --do_predict --test_file new.csv

An interrupted run continues when its command is given again with --resume_from_checkpoint. Several
GPUs, or processes, take: torchrun --standalone --nproc_per_node 2 scripts/train.py ...
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from sase_hf.evaluation.records import NO_RESULTS
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.run import PREDICTIONS_NAME, run
from sase_hf.utils.cli import errors_in_one_line


def main(argv: Sequence[str] | None = None) -> None:
    """Run what the command line asks for and print the results."""
    with errors_in_one_line(__file__):
        model_args, data_args, training_args = parse_arguments(argv, description=__doc__)
        is_first_process = training_args.process_index == 0
        logging.basicConfig(format="%(message)s")
        if is_first_process:
            logging.getLogger("sase_hf.training.run").setLevel(logging.INFO)
        outcome = run(model_args, data_args, training_args)
    if not is_first_process:
        return
    for name, value in outcome["metrics"].items():
        if not name.endswith(NO_RESULTS):
            print(f"{name:<32}{value:.4g}")
    if training_args.do_train:
        print(f"{'model':<32}{outcome['output_dir']}")
    if training_args.do_predict:
        print(f"{'predictions':<32}{Path(outcome['output_dir'], PREDICTIONS_NAME)}")
    if training_args.record is not None:
        print(f"{'record':<32}{training_args.record}")


if __name__ == "__main__":
    main()
