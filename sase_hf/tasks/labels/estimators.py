"""A classifier and a regressor by scikit-learn's conventions, and the rows that they are given.

A fit is a run of `sase_hf train` with rows in memory in place of files.

Shapes: N texts, C classes, K numbers for each text.
"""

import os
import random
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from datasets import ClassLabel, Dataset
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted
from transformers import TokenizersBackend

from ...data.labels import class_name
from ...data.rows import Source
from ...data.table import TEXT_COLUMNS, table
from ...evaluation.predictions import Reading, read_texts
from ...evaluation.records import results_of
from ...hub import write_model_card
from ...models.answers import LEAST_PROBABILITY, REGRESSION, answers_of
from ...models.checkpoint import TOKENIZER_NAMES, CheckedPreTrainedModel, list_files
from ...training.command_line import KINDS, make_task
from ...training.run import run
from ...training.task import TrainingSetup
from ...training.trainer import only_training_bar
from ...utils.files import FilePath, scratch_folder
from ...utils.loading import attention_pipeline, load_checkpoint, to_device
from ...utils.process import interrupted_by_sigterm
from ...utils.text import refusal
from ...visualization import Attention
from .task import LabelTask

BATCH_SIZE = 64  # texts that are predicted at once
# Fits of several threads run one after the other: they share random numbers and progress bars.
_FITS = threading.Lock()


class _FitTask(LabelTask):
    """The task of one fit: rows in memory or files, with labels or with numbers to predict."""

    learns_labels = True

    def prepare(self, setup: TrainingSetup) -> None:
        """Write into the config of the model what the labels were.

        ValueError: a classifier would learn numbers.
        """
        super().prepare(setup)
        columns = setup.rows.label_columns
        if self.learns_labels and not setup.rows.answers.has_labels:
            raise refusal(
                f"the labels in {','.join(columns)!r} are numbers, not classes", "use TextRegressor"
            )
        label_type = "str"
        if len(columns) > 1:
            label_type = MATRIX
        elif self.in_memory:
            label_type = type_of_labels(self.in_memory["train"], columns[0])
        setup.model.config.label_type = label_type


class _TextEstimator(BaseEstimator):  # type: ignore[misc]
    """What a classifier and a regressor of texts share."""

    learns_labels: ClassVar[bool]

    def __init__(self, **settings: Any) -> None:
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings that are given, which None is not."""
        return {
            name: value for name, value in vars(self).items() if name in KINDS and value is not None
        }

    def set_params(self, **params: Any) -> Self:
        """Change or add settings; ValueError for a name that no flag has."""
        unknown = params.keys() - KINDS.keys()
        if unknown:
            what = f"there is no parameter {', '.join(unknown)}"
            raise refusal(what, "sase_hf train --help_all lists them, as flags")
        self.__dict__.update(params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags

    def fit(
        self,
        texts: Any,
        labels: Any = None,
        *,
        validation: Any = None,
    ) -> Self:
        """Train a new model, as `sase_hf train` does; return this estimator.

        Args:
            texts: N texts, or pairs (text, text_pair): a list, an array or a series. Or rows with
                their labels: a `datasets.Dataset`, a DataFrame, or the path of a file. Their
                columns are found as `--train_file` finds them, or named by settings. Beside
                `labels`, a Dataset or DataFrame holds the texts.
            labels: N labels, or None where `texts` holds them.
            validation: Rows to validate with: (texts, labels) beside `labels`, else rows with their
                labels. By default `validation_fraction` of the rows are held out, a tenth.

        ValueError names the row that cannot be read, or the parameter that is refused, as the
        commands name it: --learning_rate.
        """
        with _alone(), tempfile.TemporaryDirectory() as scratch:
            entries, in_memory = rows_to_fit(texts, labels, validation)
            entries |= self.get_params()
            if not self.learns_labels:
                entries["problem_type"] = REGRESSION
            if "output_dir" not in entries:  # nobody would see a report
                entries = {"report": False, **entries, "output_dir": Path(scratch, "model")}
            task = make_task(_FitTask, entries, in_memory)
            task.learns_labels = self.learns_labels
            outcome = run(task)
            model, tokenizer = load_checkpoint(outcome["output_dir"])
        [column, *_] = outcome["setup"].rows.label_columns
        self._adopt(model, tokenizer, in_memory["train"][column][:] if in_memory else ())
        model.to(task.args.device)  # type: ignore[arg-type]  # of torch, and wrapped
        self.record_ = outcome["record"]
        self.metrics_ = results_of(outcome["metrics"], "eval_")
        return self

    def _adopt(
        self,
        model: CheckedPreTrainedModel,
        tokenizer: TokenizersBackend,
        cells: Sequence[Any] = (),
    ) -> None:
        """Keep a model, and how its rows and the labels in the cells of a column were given."""
        self.model_ = model
        self.tokenizer_ = tokenizer
        self.text_columns_ = tuple(
            model.config.text_columns or TEXT_COLUMNS[: 1 + model.reads_pairs]
        )
        self.is_matrix_ = model.config.label_type == MATRIX
        if self.learns_labels:
            names = answers_of(model.config).names
            as_given = {name: name for name in names}
            # Of several ways to write a label, the most frequent one is the last.
            for label in pd.Series(cells, dtype=object).explode().value_counts()[::-1].index:
                if isinstance(label, str):
                    as_given[class_name(label)] = label
            classes = np.array([*map(as_given.get, names)])
            if model.config.label_type in READERS:
                with suppress(ValueError, KeyError):  # of names that were changed
                    classes = np.array([*map(READERS[model.config.label_type], names)])
            # The order of the classes is that of scikit-learn; a model may have another one.
            self.class_ids_ = slice(None) if self.is_matrix_ else np.argsort(classes)
            self.classes_ = classes[self.class_ids_]

    def _read(self, texts: Any) -> Reading:
        """Return what the model says of N texts."""
        check_is_fitted(self, "model_")
        rows = rows_to_read(texts, self.text_columns_)
        return read_texts(self.model_, self.tokenizer_, rows)

    def _scores(self, texts: Any) -> np.ndarray:
        """Return the probabilities or numbers for N texts, (N, C) in float64."""
        logits = self._read(texts).logits.double()
        scores: np.ndarray = answers_of(self.model_.config).scores(logits).numpy()
        return scores

    def familiarity(self, texts: Any) -> np.ndarray:
        """Return how many held-out rows are as far from the training rows as each of N texts, (N,).

        A share, from 0 to 1: of texts like those of `fit`, 5 % have one below 0.05. ValueError: the
        model keeps no training rows, as one that had no held-out rows.
        """
        familiarity = self._read(texts).familiarity
        if familiarity is None:
            raise refusal(
                "the model keeps no training rows to compare texts with",
                "fit it with held-out rows",
            )
        return familiarity.double().numpy()

    def explain(self, texts: Any, target: Any = None) -> Attention:
        """Return what the model reads in a text, or in each of several, and why it answers so.

        A notebook shows the result as a heatmap; its `results` are those of the pipeline
        `self-attention`. A pair is the tuple (text, text_pair). `target` is the label to explain,
        as the model names it, by default the predicted one; "A>B" explains why A and not B.
        ValueError: an unknown label.
        """
        check_is_fitted(self, "model_")
        is_one = isinstance(texts, str | tuple)
        rows = rows_to_read([texts] if is_one else texts, self.text_columns_)
        if target is not None:
            target = class_name(np.asarray(target).item())
        read = attention_pipeline(self.model_, self.tokenizer_)
        results = read(rows, batch_size=BATCH_SIZE, target=target)
        return Attention(results[0] if is_one else results)

    def save_pretrained(self, folder: FilePath) -> None:
        """Write the model, its tokenizer, its code and its card to a folder, as a push sends them.

        `AutoModelForSequenceClassification`, `pipeline` and `from_pretrained` load it.
        """
        check_is_fitted(self, "model_")
        with only_training_bar():
            self.model_.save_pretrained(folder)
            self.tokenizer_.save_pretrained(folder)
            list_files(folder, TOKENIZER_NAMES)
            write_model_card(Path(folder), self.record_, loaded=(self.model_, self.tokenizer_))

    @classmethod
    def from_pretrained(cls, checkpoint: FilePath) -> Self:
        """Return an estimator with the model of a folder or a name on the Hub; its code is not run.

        It reads on the GPU if there is one. Labels that are texts come back without blanks around
        them, and 2.0 as 2.
        """
        with only_training_bar():
            model, tokenizer = load_checkpoint(checkpoint)
        if (
            not hasattr(model, "neighbours")
            or answers_of(model.config).has_labels != cls.learns_labels
        ):
            raise refusal(
                f"{checkpoint} is no {cls.__name__}, but a {type(model).__name__}",
                "TextClassifier loads models of labels, TextRegressor those of numbers",
            )
        to_device(model)
        estimator = cls()
        estimator._adopt(model, tokenizer)
        estimator.record_ = None
        estimator.metrics_ = {}
        return estimator


class TextClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """A classifier of texts, or of pairs of texts, that is fitted to lists.

        model = sase_hf.TextClassifier().fit(texts, labels)
        model.predict(["The room was small."])

    It follows the conventions of scikit-learn: `clone`, `cross_val_score` and `GridSearchCV` take
    it. Labels are texts or numbers, one for each text; lists of them where a text has several or
    none; or an array or a DataFrame (N, C) of 0 and 1, whose columns name the labels. `predict`
    returns them as they came.

    Parameters are the flags of `sase_hf train`, under their names; these are the usual ones.

    num_train_epochs: passes over the rows (default: 0, which chooses 2 to 30, fewer for more rows).
    learning_rate: the largest of the schedule (default: 0.001; of an encoder that learns 5e-05).
    per_device_train_batch_size: rows of an update (default: 32).
    validation_fraction: share of the rows that is held out to stop early, to choose the best epoch
        and to calibrate; 0 trains on all rows (default: 0.1).
    max_tokens: tokens of a text that are read, the first ones (default: 1,024).
    word_vectors: files or names of word vectors to start from, "own" or "none" (default: None,
        which is "own" where the texts have 100,000 tokens or more).
    encoder_name_or_path: a pretrained encoder of transformers under the attention, such as BERT
        (default: None).
    model_name_or_path: a checkpoint of this package to start from (default: None).
    class_weights: how much labels count in the answers: "balanced", a number for each in the order
        of the model, or a dict of all labels (default: 1 each).
    pooling: how the states become a sentence: self_attention, max, mean or last (default:
        self_attention).
    num_hops: rows of the attention (default: 10).
    seed: of the model and the order of the rows (default: 42). Equal seeds give equal models on one
        machine.
    use_cpu: compute on the CPU, also where there is a GPU.
    output_dir: a new folder for the model, its checkpoints and `report.html`. Without one there is
        no report, and the files are removed. Each fit needs a new folder, so leave it out in
        `cross_val_score` and searches.
    report: whether to write the report (default: False; True with an `output_dir`).
    disable_tqdm: show no bar, and no lines about the held-out rows (default: False).

    Attributes of a fitted classifier:
        classes_: the labels (C,), in order; those of a matrix in the order of its columns.
        model_, tokenizer_: as `load_checkpoint` returns them.
        metrics_: what the held-out rows measured, such as `accuracy`; empty without such rows.
        record_: the record of the run.
        text_columns_: the names of the columns of texts.
    """

    learns_labels = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict(self, texts: Any, as_frame: bool = False) -> Any:
        """Return the label of each of N texts, (N,), in the type of the labels of `fit`.

        With several labels for each text these are N lists, or a matrix (N, C) if `fit` had one.
        `as_frame` gives a DataFrame with the index of the texts and the columns `label`, and where
        a text has one label `confidence` (its probability) and `margin` (to that of the second).
        """
        scores = self.predict_proba(texts)
        has_one_label = answers_of(self.model_.config).has_one_label
        applies = scores > LEAST_PROBABILITY
        labels: Any = applies.astype(int)
        if has_one_label:
            labels = self.classes_[scores.argmax(1)]
        elif not self.is_matrix_:
            labels = [self.classes_[row].tolist() for row in applies]
        if not as_frame:
            return labels
        columns = {"label": list(labels)}
        if has_one_label:
            second, best = np.sort(scores)[:, -2:].T
            columns |= {"confidence": best, "margin": best - second}
        return _frame(texts, columns)

    def predict_proba(self, texts: Any) -> np.ndarray:
        """Return the probability of each of the `classes_` for N texts, (N, C).

        With one label for each text, those of a text sum to 1.
        """
        return self._scores(texts)[:, self.class_ids_]


class TextRegressor(RegressorMixin, _TextEstimator):  # type: ignore[misc]
    """A regressor of numbers for texts, or for pairs of texts, that is fitted to lists.

        model = sase_hf.TextRegressor().fit(texts, numbers)

    Parameters and attributes are those of `TextClassifier`, without classes. `score` is R².
    """

    learns_labels = False

    def predict(self, texts: Any, as_frame: bool = False) -> Any:
        """Return the number of each of N texts, (N,); the numbers, (N, K), if `fit` had K.

        `as_frame` gives a DataFrame with the index of the texts and a column for each number.
        """
        numbers = self._scores(texts)
        if as_frame:
            names = answers_of(self.model_.config).names
            return _frame(texts, dict(zip(names, numbers.T, strict=True)))
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _frame(texts: Any, columns: Any) -> pd.DataFrame:
    """Return columns of N values, with the index of the texts where these are of pandas."""
    return pd.DataFrame(columns, index=texts.index if hasattr(texts, "iloc") else None)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for the fits of other threads; leave random numbers, bars and signals as they were.

    The rows on disk are deleted.
    """
    with _FITS, interrupted_by_sigterm(), only_training_bar(), torch.random.fork_rng():
        of_python = random.getstate()
        of_numpy = np.random.get_state()
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)
            scratch_folder().cleanup()
            scratch_folder.cache_clear()


# ---- rows that a program holds -------------------------------------------------------------------
# They become a `datasets.Dataset` by pandas and Arrow, whose conventions decide, and the task
# reads it as it reads a file. So the labels of a fit follow the rules of those of files.
#
# Shapes: N rows, C classes.


LABEL = "label"  # the column of labels that are given beside the texts
MATRIX = "matrix"  # the `config.label_type` of a column for each label
# How a name is read as a label, by `config.label_type`.
READERS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": {"False": False, "True": True}.__getitem__,
}


def rows_to_fit(
    texts: Any, labels: Any = None, validation: Any = None
) -> tuple[dict[str, Any], dict[str, Dataset]]:
    """Return the rows that `fit` is given: the flags that name them, and splits that are no files.

    ValueError: something is neither texts, labels nor rows, the labels are not those of the texts,
    or a column has values that Arrow refuses.
    """
    given: dict[str, Any] = {"train": texts if labels is None else (texts, labels)}
    if validation is not None:
        given["validation"] = validation
    if all(isinstance(rows, str | os.PathLike) for rows in given.values()):
        return {f"{name}_file": os.fspath(path) for name, path in given.items()}, {}
    in_memory = {name: _dataset_of(rows) for name, rows in given.items()}
    if labels is None:
        return {}, in_memory
    names = in_memory["train"].column_names
    num_texts = len(names) - len(_label_frame(labels).columns)
    return {
        "text_column_names": names[:num_texts],
        "label_column_name": names[num_texts:],
    }, in_memory


def _dataset_of(rows: Any) -> Dataset:
    """Return a table, a file, or the tuple (texts, labels), as a dataset."""
    if isinstance(rows, tuple):
        frames = [_text_frame(rows[0]), _label_frame(rows[1])]
        check_consistent_length(*frames)
        rows = pd.concat([frame.reset_index(drop=True) for frame in frames], axis=1)
    if not isinstance(rows, Dataset | pd.DataFrame | str | os.PathLike):
        raise refusal(f"the rows are {rows!r:.80}", "give texts and labels, or a table of both")
    return table(rows.rename(columns=str) if isinstance(rows, pd.DataFrame) else rows)


def rows_to_read(texts: Any, names: Sequence[str]) -> list[dict[str, str]]:
    """Return N texts or N pairs as pipelines read them, of which a model read columns of `names`.

    Of a table these columns are read, or all if it has other ones. ValueError: a row is neither a
    text nor a pair, or of both the one that the model does not read.
    """
    frame = _text_frame(texts, names).rename(columns=str)
    if frame.empty:
        raise refusal("there are no texts", "give at least one")
    if len(frame.columns) == len(names) and not {*names} & {*frame.columns}:
        frame = frame.set_axis(names, axis=1)
    source = Source("test", "the given table", table(frame), {})
    rows: list[dict[str, str]] = source.texts(names).to_pylist()
    if any(None in row.values() for row in rows):
        raise refusal("a row of the texts has none", "leave it out")
    return rows


def _text_frame(given: Any, names: Sequence[str] = TEXT_COLUMNS) -> pd.DataFrame:
    """Return the columns of texts: of a table all, else those of the names."""
    if isinstance(given, Dataset):
        return given.to_pandas()
    if isinstance(given, pd.DataFrame):
        return given
    problem: object = "one text, or dicts"
    try:
        rows = [*given]
        if not isinstance(given, str | Mapping) and not any(
            isinstance(one, Mapping) for one in rows
        ):
            frame = pd.DataFrame(rows, dtype=object)
            return frame.set_axis(names[: frame.shape[1]], axis=1)
    except (ValueError, TypeError) as reason:
        problem = reason
    raise refusal(
        f"the texts are {given!r:.80} ({problem})",
        "give a list of texts, or of pairs (text, text_pair)",
    )


def _label_frame(given: Any) -> pd.DataFrame:
    """Return the columns of labels: those of a table or an array (N, C), else one."""
    # The lists in a list are the cells of one column.
    labels = pd.DataFrame(given if hasattr(given, "__array__") else pd.Series(given, dtype=object))
    return labels.set_axis([LABEL], axis=1) if len(labels.columns) == 1 else labels


def type_of_labels(rows: Dataset, column: str) -> str:
    """Return the type of the labels in a column for `config.label_type`.

    It is "str" for all that are no numbers, and for the ids of a `ClassLabel`, which have names.
    """
    feature = rows.features[column]
    feature = getattr(feature, "feature", feature)  # of lists
    kind = str(feature.dtype).strip("u0123456789")
    return kind if kind in READERS and not isinstance(feature, ClassLabel) else "str"
