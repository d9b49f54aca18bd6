"""The rows that a task reads, as dataclasses; their fields are flags of the scripts."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

SPLITS = ("train", "validation", "test")
MAX_SAMPLES = {  # the flag that limits the rows of each split
    "train": "max_train_samples",
    "validation": "max_eval_samples",
    "test": "max_predict_samples",
}


def flag(text: str, default: Any = None, **metadata: object) -> Any:
    """Return a dataclass field that is also a flag of the scripts, with this help."""
    return field(default=default, metadata={"help": text, **metadata})


@dataclass
class SourceArguments:
    """The rows of any task; alone, the pairs of one without labels."""

    _argument_group_name: ClassVar[str] = "data"
    numbers_of_texts: ClassVar[tuple[int, ...]] = (2,)

    dataset_name: str | None = flag(
        "A dataset on the Hub, OWNER/NAME or OWNER/NAME@REVISION, or a folder of data files."
    )
    dataset_config_name: str | None = flag("Configuration of the dataset on the Hub.")
    train_file: str | None = flag("CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet.")
    validation_file: str | None = flag("Rows to evaluate on.")
    test_file: str | None = flag("Rows to predict; labels may be missing.")
    text_column_names: list[str] | None = flag(
        'One text column, or two for pairs: "premise,hypothesis"; "title+body" joins two into one '
        "text. By default found by their usual names."
    )
    max_train_samples: int | None = flag("Train only on this number of rows, the first ones.")
    max_eval_samples: int | None = flag(
        "Evaluate only on this number of validation rows, the first ones."
    )
    max_predict_samples: int | None = flag("Predict only this number of test rows, the first ones.")
    max_train_words: int | None = flag(
        "Train only on pairs in which neither side has more words, counted between spaces.",
    )
    validation_fraction: float | None = flag(
        "Share of the training rows to evaluate on, if there is no validation split; 0 for none."
    )
    shuffle_seed: int | None = flag("Shuffle the training rows before any are left out.")


@dataclass
class DataArguments(SourceArguments):
    """The rows of a task with labels."""

    numbers_of_texts: ClassVar[tuple[int, ...]] = (1, 2)

    unlabelled_file: list[str] | None = flag(
        "Files of more texts, whose labels are not read: a new model of single texts takes words "
        "and word vectors from them, too."
    )
    corrections_file: list[str] | None = flag(
        "Files of corrections that people downloaded from a page or a report. They take the place "
        "of the training and validation rows with the same texts; those of other texts are more "
        "training rows."
    )
    label_column_name: str | None = flag(
        'The column of labels, or several columns that are labels: "fun,sad,angry". They hold 0 '
        "and 1, or fractions that sum to 1, the probabilities to learn. By "
        'default found by its usual name; "" ignores the labels of rows to predict.'
    )
    problem_type: str | None = flag(
        "Kind of the labels; by default inferred from the column.",
        choices=["single_label_classification", "multi_label_classification", "regression"],
    )
    label_names: list[str] | None = flag(
        "The labels in id order; by default in the order that the data give. Needed where there is "
        "no train split."
    )
    label_separator: str | None = flag(
        'What stands between several labels of one cell, such as ";".'
    )

    @property
    def kind(self) -> str | None:
        """What the labels are, if it was said."""
        return self.problem_type
