"""Rows that a program holds: texts and labels in lists, arrays, series, tables and datasets.

They become a `datasets.Dataset` by pandas and Arrow, whose conventions decide, and the task reads
it as it reads a file. So the labels of a fit follow the rules of those of files.

Shapes: N rows, C classes.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from datasets import ClassLabel, Dataset
from sklearn.utils import check_consistent_length

from ...data.rows import Source
from ...data.table import TEXT_COLUMNS, table
from ...utils.errors import refusal

LABEL = "label"  # the column of labels that are given beside the texts
# How a name is read as a label, by `config.label_type`.
READERS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": {"false": False, "true": True}.__getitem__,
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
    entries = {
        "text_column_names": ",".join(names[:num_texts]),
        "label_column_name": ",".join(names[num_texts:]),
    }
    return entries, in_memory


def _dataset_of(rows: Any) -> Dataset:
    """Return a table, a file, or the tuple (texts, labels), as a dataset."""
    if isinstance(rows, tuple):
        frames = [_text_frame(rows[0]), _label_frame(rows[1])]
        check_consistent_length(*frames)
        rows = pd.concat([frame.reset_index(drop=True) for frame in frames], axis=1)
    if not isinstance(rows, Dataset | pd.DataFrame | str | os.PathLike):
        raise refusal(f"the rows are {rows!r:.80}", "give texts and labels, or a table of both")
    return table(rows.rename(columns=str) if isinstance(rows, pd.DataFrame) else rows)


def rows_to_read(texts: Any, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return N texts or N pairs, each in a tuple, of which a model read columns of `names`.

    Of a table these columns are read, or all if it has other ones. One text may stand alone.
    ValueError: a row is neither a text nor a pair, or of both the one that the model does not read.
    """
    frame = _text_frame([texts] if isinstance(texts, str) else texts, names)
    if frame.empty:
        raise refusal("there are no texts", "give at least one")
    if len(frame.columns) == len(names) and not {*names} & {*frame.columns}:
        frame = frame.set_axis(names, axis=1)
    source = Source("test", "the given table", table(frame.rename(columns=str)), {})
    rows = source.texts(names).to_pandas()
    if rows.isna().any(axis=None):
        raise refusal("a row of the texts has none", "leave it out")
    return [*rows.itertuples(index=False, name=None)]


def _text_frame(given: Any, names: Sequence[str] = TEXT_COLUMNS) -> pd.DataFrame:
    """Return the columns of texts: of a table all, else those of the names."""
    if isinstance(given, Dataset):
        return given.to_pandas()
    if isinstance(given, pd.DataFrame):
        return given
    try:
        frame = pd.DataFrame([*given], dtype=object)
        return frame.set_axis(names[: frame.shape[1]], axis=1)
    except (ValueError, TypeError) as reason:
        raise refusal(
            f"the texts are {given!r:.80} ({reason})",
            "give a list of texts, or of pairs (text, text_pair)",
        ) from reason


def _label_frame(given: Any) -> pd.DataFrame:
    """Return the columns of labels: those of a table or an array (N, C), else one."""
    labels = given
    if not isinstance(given, pd.DataFrame):
        is_array = hasattr(given, "__array__")
        # The lists in a list are the cells of one column.
        labels = pd.DataFrame(
            np.asarray(given) if is_array else {LABEL: pd.Series([*given], dtype=object)}
        )
    return labels.set_axis([LABEL], axis=1) if len(labels.columns) == 1 else labels


def type_of_labels(rows: Dataset, column: str) -> str:
    """Return the type of the labels in a column for `config.label_type`.

    It is "str" for all that are no numbers, and for the ids of a `ClassLabel`, which have names.
    """
    feature = rows.features[column]
    feature = getattr(feature, "feature", feature)  # of lists
    kind = str(feature.dtype).rstrip("0123456789")
    return kind if kind in READERS and not isinstance(feature, ClassLabel) else "str"


def labels_by_type(names: Sequence[str], label_type: str) -> list[Any]:
    """Return the labels of the names of a model with this `config.label_type`."""
    return list(map(READERS.get(label_type, str), names))
