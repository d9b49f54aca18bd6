"""Rows that a program holds: texts and labels in lists, arrays, series, tables and datasets.

They become a `datasets.Dataset` by pandas and Arrow, whose conventions decide, and the task reads
it as it reads a file. So the labels of a fit follow the rules of those of files.

Shapes: N rows, C classes.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from datasets import ClassLabel, Dataset, DatasetDict, List

from ...data.columns import parted
from ...data.labels import class_name
from ...data.rows import Source
from ...data.table import TEXT_COLUMNS, table, usual_splits
from ...utils.errors import refusal

LABEL = "label"  # the column of labels that are given beside the texts
WAYS_TO_GIVE_TEXTS = "give a list of texts, or of pairs (text, text_pair)"
WAYS_TO_GIVE_LABELS = (
    "give a list of texts or numbers, one for each text, a list of such lists, or an array (N, C)"
)
# How a name is read as a label, by `config.label_type`.
READERS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": {"false": False, "true": True}.__getitem__,
}


class FitRows(NamedTuple):
    """The rows of a fit.

    entries: flags of `sase_hf train` that name the rows and their columns.
    in_memory: the splits that are no files.
    values: the columns of labels (N, C) as they were given, by name; empty for one column.
    dtype: that of labels which are numbers or times of numpy.
    """

    entries: dict[str, Any]
    in_memory: dict[str, Dataset]
    values: Mapping[str, Any] = {}
    dtype: np.dtype | None = None


def rows_to_fit(texts: Any, labels: Any = None, validation: Any = None) -> FitRows:
    """Return the rows that `fit` is given.

    ValueError: something is neither texts, labels nor rows, the labels are not those of the texts,
    or a column has values that Arrow refuses.
    """
    given: dict[str, Any] = {"train": texts if labels is None else (texts, labels)}
    if labels is None and isinstance(texts, DatasetDict):
        splits = usual_splits("the rows", texts)
        given = {name: texts[own_name] for name, own_name in splits.items() if name != "test"}
        if "train" not in given:
            raise refusal(f"the splits are {', '.join(texts)}", "name the rows to learn 'train'")
    if validation is not None:
        given["validation"] = validation
    if all(isinstance(rows, str | os.PathLike) for rows in given.values()):
        return FitRows({f"{name}_file": os.fspath(path) for name, path in given.items()}, {})
    in_memory = {name: _dataset_of(rows) for name, rows in given.items()}
    if labels is None:
        return FitRows({}, in_memory)
    names = list(_label_frame(labels).columns)
    entries = {"label_column_name": ",".join(map(str, names))}
    text_names = in_memory["train"].column_names[: -len(names)]
    if len(text_names) <= len(TEXT_COLUMNS):  # of more columns, those of the texts are looked for
        entries["text_column_names"] = ",".join(text_names)
    if len(names) > 1:
        return FitRows(entries, in_memory, {str(name): name for name in names})
    [first, *_] = _values(labels, WAYS_TO_GIVE_LABELS)
    dtype = first.dtype if isinstance(first, np.number | np.datetime64) else None
    return FitRows(entries, in_memory, dtype=dtype)


def _dataset_of(rows: Any) -> Dataset:
    """Return a table, or the tuple (texts, labels), as a dataset."""
    if isinstance(rows, Dataset):
        return rows
    if isinstance(rows, tuple) and len(rows) == 2:
        texts, labels = _text_frame(rows[0]), _label_frame(rows[1])
        if len(texts) != len(labels):
            raise refusal(
                f"there are {len(texts):,} texts, but {len(labels):,} labels",
                "give a label for each text",
            )
        rows = pd.concat([texts.reset_index(drop=True), labels.reset_index(drop=True)], axis=1)
    if not isinstance(rows, pd.DataFrame):
        raise refusal(
            f"the rows are {rows!r:.80}",
            "give texts and labels, a Dataset or a DataFrame that holds both, or only files",
        )
    return table(rows.rename(columns=str))


def rows_to_read(texts: Any, names: Sequence[str]) -> list[list[str]]:
    """Return N texts, each alone in a list, or N pairs, of which a model read columns of `names`.

    Of a table these columns are read, or all if it has other ones. One text may stand alone.
    ValueError: a row is neither a
    text nor a pair, or of both the one that the model does not read.
    """
    frame = _text_frame([texts] if isinstance(texts, str) else texts)
    columns = parted(names, "+", frame.columns)
    if isinstance(texts, Dataset | pd.DataFrame) and {*columns} <= {*frame.columns}:
        frame = Source("test", "the texts", table(texts), {}).texts(names).to_pandas()
    if len(frame) and len(frame.columns) != len(names):
        raise refusal(
            f"the model reads {len(names)} text(s) a row, here are {len(frame.columns)}",
            "give single texts, or pairs, as in training",
        )
    rows = frame.to_numpy().tolist()
    for number, row in enumerate(rows):
        if not all(isinstance(text, str) for text in row):
            what = f"row {number} (counted from 0) is {row!r:.80}"
            raise refusal(what, WAYS_TO_GIVE_TEXTS)
    return rows


def _text_frame(given: Any) -> pd.DataFrame:
    """Return the columns of texts: of a table all, else those of `TEXT_COLUMNS`."""
    if isinstance(given, Dataset):
        return given.to_pandas()
    if isinstance(given, pd.DataFrame):
        return given
    values = _values(given, WAYS_TO_GIVE_TEXTS)
    rows = [[*x] if isinstance(x, list | tuple | np.ndarray) else [x] for x in values]
    widths = sorted({len(row) for row in rows}) or [1]
    if len(widths) > 1 or widths[0] > len(TEXT_COLUMNS):
        raise refusal(f"the rows have {widths} texts", WAYS_TO_GIVE_TEXTS)
    return pd.DataFrame(rows, columns=TEXT_COLUMNS[: widths[0]], dtype=object)


def _label_frame(given: Any) -> pd.DataFrame:
    """Return the columns of labels: those of a table or an array (N, C), else one."""
    if isinstance(given, pd.DataFrame):
        table = given
    else:
        values = _values(given, WAYS_TO_GIVE_LABELS)
        if not isinstance(values, np.ndarray):
            values = pd.Series(values, dtype=object)
        table = pd.DataFrame(values)
    return table.set_axis([LABEL], axis=1) if len(table.columns) == 1 else table


def _values(given: Any, ways_to_give: str) -> Any:
    """Return the values of a list, an array, a series, a tensor or a column of `datasets`."""
    values = np.asarray(given) if hasattr(given, "__array__") else given
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not is_list or getattr(values, "ndim", 1) == 0:
        raise refusal(f"there is {given!r:.80}, a {type(given).__name__}", ways_to_give)
    return values[:]


def labels_by_name(rows: Dataset, column: str) -> dict[str, Any]:
    """Return the labels in a column by the names that a model has for them.

    A `ClassLabel` has ids in its rows, and names beside them: its labels are the ids.
    """
    feature = rows.features[column]
    if isinstance(feature, List):
        feature = feature.feature
    if isinstance(feature, ClassLabel):
        return {class_name(name): number for number, name in enumerate(feature.names)}
    lists = (cell if isinstance(cell, list) else [cell] for cell in rows[column][:])
    return {class_name(x): x for x in chain.from_iterable(lists) if x is not None}


def type_of_labels(values: Mapping[str, Any]) -> str:
    """Return the type of labels, by name, for `config.label_type`.

    It is "str" for all that are no numbers, and for ids with other names.
    """
    types = {type(x).__name__ if class_name(x) == name else "str" for name, x in values.items()}
    return types.pop() if len(types) == 1 and types <= READERS.keys() else "str"


def labels_by_type(names: Sequence[str], label_type: str) -> list[Any]:
    """Return the labels of the names of a model with this `config.label_type`."""
    read = READERS.get(label_type, str)
    try:
        return [read(name) for name in names]
    except (ValueError, KeyError):  # the labels were renamed
        return list(names)
