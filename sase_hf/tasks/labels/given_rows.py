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
from datasets import ClassLabel, Column, Dataset, DatasetDict, List

from ...data.rows import Source
from ...data.table import TEXT_COLUMNS, table, usual_splits
from ...utils.errors import refusal

LABEL = "label"  # the column of labels that are given beside the texts
WAYS_TO_GIVE_TEXTS = "give a list of texts, or of pairs (text, text_pair)"
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
    if labels is None and isinstance(texts, DatasetDict):
        splits = usual_splits(texts)
        given = {name: texts[own_name] for name, own_name in splits.items() if name != "test"}
    if validation is not None:
        given["validation"] = validation
    if all(isinstance(rows, str | os.PathLike) for rows in given.values()):
        return {f"{name}_file": os.fspath(path) for name, path in given.items()}, {}
    in_memory = {name: _dataset_of(rows) for name, rows in given.items()}
    if labels is None:
        return {}, in_memory
    names = list(map(str, _label_frame(labels).columns))
    entries = {"label_column_name": ",".join(names)}
    text_names = in_memory["train"].column_names[: -len(names)]
    if len(text_names) <= len(TEXT_COLUMNS):  # of more columns, those of the texts are looked for
        entries["text_column_names"] = ",".join(text_names)
    return entries, in_memory


def _dataset_of(rows: Any) -> Dataset:
    """Return a table, or the tuple (texts, labels), as a dataset."""
    if isinstance(rows, Dataset):
        return rows
    if isinstance(rows, tuple):
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
    ValueError: a row is neither a text nor a pair, or of both the one that the model does not read.
    """
    frame = _text_frame([texts] if isinstance(texts, str) else texts)
    if isinstance(texts, Dataset | pd.DataFrame) and len(frame):
        source = Source("test", "the texts", table(texts), {})
        frame = source.texts(names).to_pandas() if all(map(source.has, names)) else frame
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
    frame = _frame(given, dtype=object)
    names = TEXT_COLUMNS[: max(frame.shape[1], 1)]
    if frame.shape[1] > len(names):
        raise refusal(f"the rows have {frame.shape[1]} texts", WAYS_TO_GIVE_TEXTS)
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)  # a series has a name
    return numbered.reindex(columns=range(len(names))).set_axis(names, axis=1)


def _label_frame(given: Any) -> pd.DataFrame:
    """Return the columns of labels: those of a table or an array (N, C), else one."""
    labels = given
    if not isinstance(given, pd.DataFrame):
        is_array = hasattr(given, "__array__")
        # The lists in a list are the cells of one column.
        labels = _frame(np.asarray(given) if is_array else pd.Series([*given], dtype=object))
    return labels.set_axis([LABEL], axis=1) if len(labels.columns) == 1 else labels


def _frame(values: Any, dtype: Any = None) -> pd.DataFrame:
    values = values[:] if isinstance(values, Column) else values  # which pandas takes for an array
    try:
        return pd.DataFrame(values, dtype=dtype)
    except (ValueError, TypeError) as reason:
        raise refusal(
            f"there is {values!r:.80} ({reason})",
            f"{WAYS_TO_GIVE_TEXTS}; labels are a list, or an array (N, C)",
        ) from reason


def has_ids(rows: Dataset, column: str) -> bool:
    """Return whether the labels in a column are ids of a `ClassLabel`, with names beside them."""
    return isinstance(_feature(rows, column), ClassLabel)


def _feature(rows: Dataset, column: str) -> Any:
    feature = rows.features[column]
    return feature.feature if isinstance(feature, List) else feature


def type_of_labels(rows: Dataset, column: str) -> str:
    """Return the type of the labels in a column for `config.label_type`.

    It is "str" for all that are no numbers, and for ids with other names.
    """
    kind = str(_feature(rows, column).dtype).rstrip("0123456789")
    return kind if kind in READERS and not has_ids(rows, column) else "str"


def labels_by_type(names: Sequence[str], label_type: str) -> list[Any]:
    """Return the labels of the names of a model with this `config.label_type`."""
    read = READERS.get(label_type, str)
    try:
        return [read(name) for name in names]
    except (ValueError, KeyError):  # the labels were renamed
        return list(names)
