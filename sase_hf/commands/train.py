"""Train, evaluate and predict: labels, sets of labels or numbers for texts and pairs of texts.

These commands read a file of your own: CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet. A
tenth of the rows is kept to evaluate on. A preset, named by the first line of the log, chooses
sizes, epochs and precision. The model and a report are in runs/reviews afterwards:

    sase_hf train --train_file reviews.csv
    sase_hf train --train_file reviews.csv --word_vectors glove.6B.100d.txt

These commands predict the labels of new rows, and evaluate on rows with labels:

    sase_hf train --model_name_or_path runs/reviews --test_file new.csv
    sase_hf train --model_name_or_path runs/reviews --validation_file dev.csv

A recipe holds every setting of a run; flags after the recipe override its entries. A command or
recipe that names a step (--do_train, --do_eval, --do_predict) does this step alone, with the
defaults that --help lists. Another command takes other defaults from a preset, which the log names:

    sase_hf synthetic_corpus data/synthetic
    sase_hf train scripts/recipes/synthetic_reviews.yaml

An interrupted run continues when its command is given again with --resume_from_checkpoint; with
--resume_from_checkpoint auto, one command starts and continues. Several GPUs, or processes, take:
torchrun --standalone --nproc_per_node 2 -m sase_hf train ...
"""

from collections.abc import Sequence

from ..tasks import LabelTask
from .training_frame import run_script


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    run_script(__file__, __doc__, argv, LabelTask)
