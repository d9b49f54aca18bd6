"""Train, evaluate and predict: labels, pairs of texts, ranking, or translation.

These commands read a file of your own: CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet.
A tenth of the rows is kept to evaluate on. Epochs (2 to 30, fewer for more rows) and precision are
chosen; the first lines of the log say how. The model and a report are in runs/reviews afterwards:

    sase_hf train --train_file reviews.csv
    sase_hf train --train_file reviews.csv --word_vectors glove.6B.100d.txt

These commands predict the labels of new rows, and evaluate on rows with labels:

    sase_hf train --model_name_or_path runs/reviews --test_file new.csv
    sase_hf train --model_name_or_path runs/reviews --validation_file dev.csv

Files without labels have two text columns. A ranker learns to find the document of each query among
those of its batch; larger batches teach more. A translation is measured by BLEU, which needs
pip install 'sase_hf[translation]':

    sase_hf train --task retrieval --train_file pairs.csv --text_column_names title,body
    sase_hf train --task translation --train_file pairs.csv
    sase_hf train --task translation --model_name_or_path runs/pairs-translator
        --test_file new.csv --generation_num_beams 12

A recipe holds every setting of a run; flags after the recipe override its entries. A command or
recipe that names a step (--do_train, --do_eval, --do_predict) does this step alone, with the
defaults that --help_all lists:

    sase_hf train scripts/recipes/yelp5.yaml

With --resume_from_checkpoint auto a command starts a training, or continues an interrupted one.
Several GPUs, or processes, take:
torchrun --standalone --nproc_per_node 2 -m sase_hf train ...

The usual flags, beside those of transformers' TrainingArguments; --help_all lists all of a task:

    --task NAME                       labels (default), nli, retrieval or translation
    --train_file FILE                 rows to learn from
    --validation_file FILE            rows to evaluate on (default: a tenth of the training rows)
    --test_file FILE                  rows to predict or to translate
    --dataset_name NAME               a dataset on the Hub, or a folder of data files
    --text_column_names NAMES         one column, or two for pairs: premise,hypothesis
    --label_column_name NAME          the column of labels
    --unlabelled_file FILE ...        more texts, for words and word vectors
    --corrections_file FILE ...       corrections downloaded from a page or a report
    --problem_type KIND               {single,multi}_label_classification or regression
    --model_name_or_path NAME         a checkpoint to start from or to evaluate
    --encoder_name_or_path NAME       a pretrained encoder under the attention, such as BERT
    --word_vectors FILE ...           GloVe, word2vec, fastText or a static embedding; own; none
    --level UNIT                      of tokens: auto, word or subword
    --max_tokens N                    tokens of a text that are read, the first ones
    --encoder NAME                    bilstm, cnn, dilated_cnn, relation_network or none
    --pooling NAME                    self_attention, max, mean or last
    --num_hops N                      rows of the attention
    --score_mode NAME                 of a ranker: rows or flat
    --class_weights balanced          answer as if all classes were equally frequent
    --subwords                        of a translation: cut rare words into pieces
    --has_attention false             of a translation: RNNencdec, the baseline
    --generation_num_beams N          translations that a beam search keeps
    --output_dir FOLDER               the model and all results (default: runs/ and the file)
    --num_train_epochs N              passes over the rows; 0 chooses
    --learning_rate X                 the largest of the schedule
    --per_device_train_batch_size N   rows per process and step
    --seed N                          of the order, the first weights and dropout
    --resume_from_checkpoint [FOLDER] continue an interrupted run
    --record FILE                     metrics, data, seed, versions and hardware as JSON
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..data.columns import DataArguments, SourceArguments
from ..data.rows import load_rows, open_sources
from ..utils.cli import errors_in_one_line, with_recipe
from ..utils.text import table_lines

HOW_TO_GO_ON = "stopped; the same command with --resume_from_checkpoint auto continues a training"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps that the command line names, and print the results."""
    with errors_in_one_line(__file__, HOW_TO_GO_ON):
        words = with_recipe(sys.argv[1:] if argv is None else argv)
        name = check_files(words)
        from ..tasks import TASKS, LabelTask
        from ..training import run
        from ..training.command_line import parse_arguments

        logging.basicConfig(format="%(message)s")
        logging.getLogger("sase_hf").setLevel(logging.INFO)
        task = parse_arguments(TASKS.get(name, LabelTask), words, __doc__)
        if task.args.process_index > 0:
            logging.disable(logging.INFO)
        outcome = run(task)
    if task.args.process_index == 0:
        print_results(task, outcome)


def check_files(words: Sequence[str]) -> str:
    """Return the `--task` of a command line, by default labels, before transformers is imported.

    ValueError or OSError names the faults of the files that it learns from, or that it cannot read.
    Other flags are refused by the parser of the run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", default="labels")
    parser.add_argument("--model_name_or_path")
    for field in fields(DataArguments):
        if "str" in str(field.type):
            nargs = "*" if "list" in str(field.type) else None
            parser.add_argument(f"--{field.name}", nargs=nargs, default=field.default)
    given, _ = parser.parse_known_args(words)
    task: str = given.task
    kind = SourceArguments if task in ("retrieval", "translation") else DataArguments
    rows = {entry.name: value for entry in fields(kind) if (value := vars(given).get(entry.name))}
    logging.disable(logging.WARNING)  # the run says it again
    try:
        if "train_file" in rows and given.model_name_or_path is None:
            load_rows(kind(**rows))
        elif (
            "dataset_name" not in rows
            and {"train_file", "validation_file", "test_file"} & rows.keys()
        ):
            open_sources(kind(**rows))  # the model says what the labels are
    finally:
        logging.disable(logging.NOTSET)
    return task


def print_results(task: Any, outcome: dict[str, Any]) -> None:
    """Print what was measured, the folder of results, and commands that go on from there."""
    from ..data.tokenizer import built_settings
    from ..evaluation.records import results_of
    from ..serving.html_export import obstacle_of
    from ..tasks.labels.report import REPORT_NAME

    folder, tables = outcome["output_dir"], outcome["report"]
    metrics = {} if tables else results_of(outcome["metrics"], "")
    for table in tables:
        print("", *table_lines(table), sep="\n")
    for name, value in metrics.items():
        print(f"{name:<32}{value:.4g}")
    print(f"\n{'results in':<32}{folder}")
    if not tables:
        return
    model = folder if task.args.do_train else str(task.settings.model_name_or_path)
    print("\nNext:", f"open {Path(folder, REPORT_NAME).resolve().as_uri()}", sep="\n  ")
    setup = outcome["setup"]
    if obstacle_of(setup.model, built_settings(setup.tokenizer)) is None:
        print(" ", command("export", model, f"{model}.html"))
    print(" ", command("predict", model, "NEW.csv"), "> predictions.csv")


def command(*words: str) -> str:
    """Return a line for the shell that runs this package by the Python that runs now."""
    return shlex.join([sys.orig_argv[0], "-m", "sase_hf", *words])
