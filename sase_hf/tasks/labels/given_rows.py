"""Rows that a program holds: texts and labels in lists, arrays, series, tables and datasets.

The task reads them as a `datasets.Dataset` in which a label is the id of its class. So no label
becomes another one on the way, and each is returned as it was given.

Shapes: N rows, C classes.
"""

import logging
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from ...data.arguments import columns_in
from ...data.columns import LABELS, PAIRS, TEXTS
from ...data.label_values import class_name
from ...data.labels import check_classes
from ...data.sources import TEXT_COLUMNS, usual_form
from ...models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ...utils.errors import refusal
from ...utils.text import one_line, text_fault

logger = logging.getLogger(__name__)

# What Dataset.from_pandas raises for values of mixed types, or of types that Arrow does not have.
UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)

LABEL = "label"  # the column of labels that are given beside the texts
WAYS_TO_GIVE_TEXTS = "give a list of texts, or of pairs (text, text_pair)"
MISSING = ("None", "nan", "<NA>", "NaT")  # how Python, numpy and pandas print no value
SEVERAL = (list, tuple, set, frozenset)  # labels of one text
TYPES: dict[type, str] = {bool: "bool", int: "int", float: "float"}
TIMES = ("M", "m")  # the kinds of dtypes that numpy turns into whole numbers of nanoseconds
MAX_LISTED = 10


class FitRows(NamedTuple):
    """The rows of a fit.

    entries: flags of `sase_hf train` that name the rows and their columns.
    in_memory: the splits that are no files.
    values: each label as it was given, by the name that the model has for it; empty if the labels
        are numbers, or in a column that is found later.
    dtype: the type of an array of labels.
    is_matrix: whether the labels were a matrix (N, C) with a 0 or 1 for each class.
    """

    entries: dict[str, Any]
    in_memory: dict[str, Dataset]
    values: dict[str, Any]
    dtype: np.dtype | None = None
    is_matrix: bool = False


class _Known(NamedTuple):
    """The labels that a model learns: (C,) as they were given, in order, and their names.

    are_several: whether each row has a list of them, or is a row of a matrix (N, C).
    """

    values: list[Any]
    names: list[str]
    are_several: bool
    is_matrix: bool


def rows_to_fit(
    texts: Any,
    labels: Any,
    validation: Any,
    entries: Mapping[str, Any],
    *,
    learns_labels: bool,
) -> FitRows:
    """Return the rows that `fit` is given; `entries` are its flags so far.

    ValueError: something is neither texts, labels nor rows, or the labels are not those of the
    texts.
    """
    if labels is None:
        return _rows_with_labels(texts, validation, learns_labels)
    columns, values = _labelled(texts, labels, _asked_columns(entries, texts))
    named = {"label_column_name": LABEL, "problem_type": REGRESSION}
    if len(columns) <= len(TEXT_COLUMNS):
        named["text_column_names"] = ",".join(columns)
    known = None
    names_of_columns = list(getattr(labels, "columns", []))
    if learns_labels:
        known = _known_labels(values, names_of_columns)
        if not known.is_matrix and "problem_type" not in entries:
            check_classes(known.names, len(values), "set the problem_type if each is a class")
        named["problem_type"] = MULTI_LABEL if known.are_several else SINGLE_LABEL
    else:
        _check_numbers(values)
    in_memory = {"train": _dataset(columns, values, known)}
    if validation is not None:
        if not isinstance(validation, tuple) or len(validation) != 2:
            kind = type(validation).__name__
            raise refusal(f"validation is a {kind}", "give it as (texts, labels)")
        _check_columns_of_labels(validation[1], names_of_columns)
        columns, values = _labelled(*validation, list(columns))
        in_memory["validation"] = _dataset(columns, values, known)
    if known is None:
        return FitRows(named, in_memory, {})
    by_name = dict(zip(known.names, known.values, strict=True))
    dtype = None if known.is_matrix else getattr(labels, "dtype", None)
    return FitRows(named, in_memory, by_name, dtype, known.is_matrix)


def _labelled(
    texts: Any, labels: Any, names: Sequence[str]
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the columns of N texts, of a table those of `names`, and N labels."""
    columns = _text_columns(texts, names)
    if len(columns) <= len(TEXT_COLUMNS):  # of more columns, those of the texts are looked for
        _check_texts(columns, may_lack=True)
    return columns, _label_values(labels, len(next(iter(columns.values()), [])))


def _rows_with_labels(rows: Any, validation: Any, learns_labels: bool) -> FitRows:
    """Return rows that hold their labels: files, tables, or a dataset with splits."""
    entries = {} if learns_labels else {"problem_type": REGRESSION}
    given = {"train": rows}
    if isinstance(rows, DatasetDict):
        given = {name: rows[name] for name in ("train", "validation") if name in rows}
        if "train" not in given:
            raise refusal(f"the splits are {', '.join(rows)}", "name the rows to learn 'train'")
    if validation is not None:
        given["validation"] = validation
    files = {f"{name}_file": os.fspath(x) for name, x in given.items() if _is_path(x)}
    if len(files) == len(given):
        return FitRows({**entries, **files}, {}, {})
    return FitRows(entries, {name: _table(split) for name, split in given.items()}, {})


def _table(rows: Any) -> Dataset:
    """Return a table as a dataset; ValueError if it is none."""
    if isinstance(rows, Dataset):
        return rows
    if _is_table(rows):
        with _naming_row(rows):
            return _dataset_of(rows)
    if _is_path(rows):
        raise refusal(f"{rows} is a file, but other rows are in memory", "give files only, or none")
    raise refusal(
        f"there are no labels, and the rows are a {type(rows).__name__}",
        "give texts and labels, or a Dataset, a DataFrame or a file that holds both",
    )


def _dataset_of(table: Any) -> Dataset:
    """Return a DataFrame as a dataset, without the columns that none can hold, which are logged.

    ValueError: two columns have one name, or the name of a column that is left out is a usual one
    of texts or labels.
    """
    twice = [name for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        raise refusal(f"two columns have the name {twice[0]!r}", "rename one of them")
    try:
        return Dataset.from_pandas(table, preserve_index=False)
    except UnicodeEncodeError:  # a text, whose row the caller names
        raise
    except UNREADABLE:
        readable = [name for name in table.columns if _is_readable(table[[name]])]
    return Dataset.from_pandas(table[readable], preserve_index=False)


def _is_readable(column: Any) -> bool:
    """Return whether a dataset can hold the only column of a DataFrame; log why if it cannot."""
    [name] = column.columns
    try:
        Dataset.from_pandas(column, preserve_index=False)
    except UNREADABLE as reason:
        form = usual_form(str(name))
        if any(form in names for names in (*TEXTS, *PAIRS, *LABELS)):
            fault = one_line(f"column {name!r} cannot be read: {reason}")
            raise refusal(fault, "give its values one type") from None
        logger.warning(one_line(f"column {name!r} is not read: {reason}"))
        return False
    return True


def rows_to_read(texts: Any, names: Sequence[str]) -> list[list[str]]:
    """Return N texts, each alone in a list, or N pairs, of which a model read columns of `names`.

    Of a table these columns are read, or all if it has other ones. ValueError: a row is neither a
    text nor a pair, or of both the one that the model does not read.
    """
    present = _column_names(texts) if _is_table(texts) else []
    columns = _text_columns(texts, list(names) if {*names} <= {*present} else present)
    if columns and len(columns) != len(names):
        what = "pairs of texts" if len(names) > 1 else "single texts"
        raise refusal(f"the model reads {what}, but a row has {len(columns)}", f"give {what}")
    _check_texts(columns)
    return [list(row) for row in zip(*columns.values(), strict=True)]


def _check_texts(columns: Mapping[str, Sequence[Any]], *, may_lack: bool = False) -> None:
    """Raise ValueError for the first row in which a column holds no text, or None where it may."""
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        for name, text in zip(columns, row, strict=True):
            if isinstance(text, str) or (may_lack and text is None):
                continue
            if name in TEXT_COLUMNS:
                raise _no_text(number, text)
            raise refusal(
                f"row {number} (counted from 0) of column {name!r} is {text!r:.80}, a "
                f"{type(text).__name__}",
                "leave the row out, or name the columns of texts with text_column_names",
            )


def several_labels(labels: Any, num_rows: int) -> list[list[Any]]:
    """Return the labels of N texts that have several, or none."""
    rows = _label_values(labels, num_rows)
    if rows and not _are_several(rows):
        raise refusal(f"the label of text 0 is {rows[0]!r:.80}", "give a list of labels a text")
    return rows


def _is_table(given: object) -> bool:
    """Return whether something holds named columns: a DataFrame or a `Dataset`."""
    return isinstance(given, Dataset) or (hasattr(given, "columns") and hasattr(given, "iloc"))


def _is_path(given: object) -> bool:
    return isinstance(given, str | os.PathLike)


def _column_names(table: Any) -> list[Any]:
    return table.column_names if isinstance(table, Dataset) else list(table.columns)


def _asked_columns(entries: Mapping[str, Any], texts: Any) -> list[str]:
    """Return the columns of texts that a setting names."""
    asked = entries.get("text_column_names") or []
    present = _column_names(texts) if _is_table(texts) else []
    names: list[str] = []
    for word in [asked] if isinstance(asked, str) else asked:
        names += columns_in(word, present)
    return names


def _text_columns(given: Any, names: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of texts by name: of a table those of `names`, or all if there are none.

    Those of other rows have the names in `TEXT_COLUMNS`.
    """
    if _is_table(given):
        present = _column_names(given)
        columns = {}
        for name in names or present:
            if name not in present:
                listed = ", ".join(map(repr, present))
                raise refusal(f"there is no column {name!r}", f"the rows have {listed}")
            cells = _plain(given[name][:])
            columns[str(name)] = [None if _is_no_value(cell) else cell for cell in cells]
    else:
        columns = _columns_of_list(given)
    return columns


def _columns_of_list(given: Any) -> dict[str, list[Any]]:
    if _is_path(given) or isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise refusal(f"the texts are {given!r:.80}, a {type(given).__name__}", WAYS_TO_GIVE_TEXTS)
    rows: list[list[Any]] = []
    for number, value in enumerate(_plain(given)):
        row = list(value) if isinstance(value, list | tuple) else [value]
        if not 1 <= len(row) <= len(TEXT_COLUMNS):
            raise _no_text(number, value)
        if rows and len(row) != len(rows[0]):
            raise refusal(
                f"text {number} (counted from 0) is {value!r:.80}, the first is {rows[0]!r:.80}",
                "give single texts only, or pairs only",
            )
        rows.append([None if _is_no_value(text) else text for text in row])
    columns = zip(*rows, strict=True)
    return {name: list(texts) for name, texts in zip(TEXT_COLUMNS, columns, strict=False)}


def _no_text(number: int, value: object) -> Exception:
    return refusal(
        f"text {number} (counted from 0) is {value!r:.80}, a {type(value).__name__}",
        WAYS_TO_GIVE_TEXTS,
    )


def _plain(values: Any) -> list[Any]:
    """Return the values of an array, a series, a tensor or a column as those of Python.

    Times stay those of numpy or pandas, which may be finer than those of Python.
    """
    if hasattr(values, "tolist") and not _holds_times(values):
        values = values.tolist()
    return [
        value.item() if isinstance(value, np.generic) and not _holds_times(value) else value
        for value in values
    ]


def _holds_times(values: Any) -> bool:
    """Return whether something of numpy or pandas is a time or a duration, or several of them."""
    return getattr(getattr(values, "dtype", None), "kind", None) in TIMES


def _label_values(labels: Any, num_rows: int) -> list[Any]:
    """Return N labels, None for a missing one; ValueError if there are not as many as texts."""
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise refusal(f"the labels are {labels!r:.80}", "give a list with a label for each text")
    values = _plain(_one_dimension(labels))
    if not values or not num_rows:
        raise refusal(f"there are {num_rows} texts", "give at least two, with different labels")
    if len(values) != num_rows:
        raise refusal(
            f"there are {num_rows:,} texts, but {len(values):,} labels",
            "give a label for each text",
        )
    values = [None if _is_missing(value) else value for value in values]
    _check_labels(values)
    return values


def _one_dimension(labels: Any) -> Any:
    """Return labels that may be a table; a single column (N, 1) as (N,), as scikit-learn does."""
    if hasattr(labels, "to_numpy") and not _holds_times(labels):
        labels = labels.to_numpy()
    shape = tuple(getattr(labels, "shape", ()))
    return labels.reshape(-1) if len(shape) == 2 and shape[1] == 1 else labels


def _check_labels(values: Sequence[Any]) -> None:
    """Raise ValueError if only some rows have lists of labels, or a list holds a missing one."""
    are_several = _are_several(values)
    first = next((value for value in values if value is not None), None)
    for number, value in enumerate(values):
        if value is not None and isinstance(value, SEVERAL) != are_several:
            raise refusal(
                f"label {number} (counted from 0) is {value!r:.80}, the first is {first!r:.80}",
                "give each text one label, or each a list of labels",
            )
        for item in value if isinstance(value, SEVERAL) else ():
            if _is_missing(item):
                raise refusal(
                    f"label {number} (counted from 0) is {value!r:.80}, which holds {item!r}",
                    "leave it out of the list; a text without labels has an empty one",
                )


def _is_missing(value: object) -> bool:
    return _is_no_value(value) or not str(value).strip()


def _is_no_value(value: object) -> bool:
    is_no_time = _holds_times(value) and bool(np.isnat(value))  # type: ignore[call-overload]
    return is_no_time or repr(value) in MISSING


def _check_numbers(values: Sequence[Any]) -> None:
    """Raise ValueError for labels of a regressor that are texts or truth values."""
    for number, value in enumerate(values):
        for item in value if isinstance(value, SEVERAL) else [value]:
            if isinstance(item, str | bool):
                raise refusal(
                    f"label {number} (counted from 0) is {value!r:.80}, which is no number",
                    "give numbers, or use TextClassifier",
                )


def _are_several(values: Sequence[object]) -> bool:
    """Return whether labels are several for each text."""
    return isinstance(next((x for x in values if x is not None), None), SEVERAL)


def _check_columns_of_labels(labels: Any, learnt: Sequence[Any]) -> None:
    """Raise ValueError if a table of labels to validate has other columns than that to learn."""
    names = list(getattr(labels, "columns", []))
    are_tables = len(names) > 1 and len(learnt) > 1  # the name of a single column says nothing
    if are_tables and names != learnt:
        raise refusal(
            f"the labels to validate are columns {names!r:.80}, those to learn {learnt!r:.80}",
            "give both the same columns in the same order",
        )


def _known_labels(values: Sequence[Any], names_of_columns: Sequence[Any] = ()) -> _Known:
    """Return the classes of labels; ValueError if they are none, or two would have one name.

    Those of a matrix (N, C) keep their order; a table has the `names_of_columns` (C,).
    """
    are_several = _are_several(values)
    is_matrix = are_several and _is_matrix(values)
    if len(names_of_columns) > 1 and not is_matrix:
        _refuse_columns(values, names_of_columns)
    values = [value for value in values if value is not None]
    if is_matrix:
        found: list[Any] = list(names_of_columns) or list(range(len(values[0])))
    else:
        if are_several:
            _check_repeats(values)
        found = _distinct(chain.from_iterable(values) if are_several else values)
        found = [found[place] for place in in_order(found)]
    first: dict[str, Any] = {}
    for value in found:
        if isinstance(value, float) and not value.is_integer():
            raise refusal(
                f"the label {value!r} is a number that is not whole",
                "use TextRegressor, or give such labels as texts",
            )
        name = name_of(value)
        if name in first:
            raise refusal(
                f"the labels {first[name]!r} and {value!r} have one name, {name!r}",
                "write one of them in another way",
            )
        first[name] = value
    return _Known(found, list(first), are_several, is_matrix)


def _refuse_columns(rows: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise ValueError for the first cell of a table of labels (N, C) that is not 0 or 1."""
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            if not isinstance(cell, int | float) or cell not in (0, 1):
                raise refusal(
                    f"the column {name!r} of the labels holds {cell!r:.80}",
                    "give one column of labels, or columns that hold 0 and 1",
                )


def _is_matrix(rows: Sequence[Any]) -> bool:
    """Return whether rows are those of a matrix (N, C) of 0 and 1, with C above 1.

    As lists of the labels 0 and 1, each row would repeat a label, or have both.
    """
    num_columns = len(rows[0] or ())
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != num_columns:
            return False
        if any(not isinstance(cell, int | float) or cell not in (0, 1) for cell in row):
            return False
    return num_columns > 1


def _check_repeats(rows: Sequence[Any]) -> None:
    """Raise ValueError if a list of labels has one twice."""
    for number, row in enumerate(rows):
        if len(_distinct(row)) < len(row):
            raise refusal(
                f"label {number} (counted from 0) is {row!r:.80}, with a label twice",
                "give each label of a text once, or a matrix of 0 and 1",
            )


def _distinct(items: Iterable[Any]) -> list[Any]:
    distinct: dict[Hashable, None] = {}
    for item in items:
        if not isinstance(item, Hashable):
            raise refusal(
                f"a label is {item!r:.80}, a {type(item).__name__}",
                "give texts, numbers or other hashable values, or a list of them for each text",
            )
        distinct[item] = None
    return list(distinct)


def _dataset(columns: Mapping[str, list[Any]], values: list[Any], known: _Known | None) -> Dataset:
    """Return texts and labels as a dataset; ValueError for a label that is not `known`.

    None is known where the labels are numbers.
    """
    if LABEL in columns:
        raise refusal(
            f"the texts have a column {LABEL!r}, and there are labels beside them",
            "leave one of the two out",
        )
    features: dict[str, Any] = {name: Value("string") for name in columns}
    if known is None:
        with _naming_row(columns):
            return Dataset.from_dict({**columns, LABEL: values})
    _check_form(values, known)
    feature = ClassLabel(names=known.names)
    ids = {value: label_id for label_id, value in enumerate(known.values)}
    if known.is_matrix:
        cells: list[Any] = [np.flatnonzero(row).tolist() for row in values]
        features[LABEL] = List(feature)
    elif known.are_several:
        cells = [None if row is None else [_id_of(value, ids) for value in row] for row in values]
        features[LABEL] = List(feature)
    else:
        cells = [None if value is None else _id_of(value, ids) for value in values]
        features[LABEL] = feature
    with _naming_row(columns):
        return Dataset.from_dict({**columns, LABEL: cells}, features=Features(features))


@contextmanager
def _naming_row(columns: Any) -> Iterator[None]:
    """Raise ValueError that names the row with a text that a dataset cannot hold.

    `columns` are lists by name, or a table.
    """
    try:
        yield
    except UnicodeEncodeError as reason:
        for name in columns:
            for number, value in enumerate(columns[name]):
                fault = text_fault(value) if isinstance(value, str) else None
                if fault is not None:
                    place = f"row {number} (counted from 0), column {name!r}"
                    raise ValueError(f"{place}: {fault}") from reason
        raise


def _check_form(values: Sequence[Any], known: _Known) -> None:
    """Raise ValueError if labels to validate are not in the form of those to learn."""
    if known.is_matrix:
        is_same = _are_several(values) and _is_matrix(values)
        is_same = is_same and len(values[0]) == len(known.values)
    else:
        is_same = _are_several(values) == known.are_several
    if not is_same:
        raise refusal(
            f"the labels to validate begin with {values[0]!r:.80}, unlike those to learn",
            "give both in one form",
        )


def _id_of(value: Any, ids: Mapping[Any, int]) -> int:
    if value not in ids:
        known = ", ".join(map(repr, list(ids)[:MAX_LISTED]))
        raise refusal(f"a row to validate has the label {value!r}", f"those to learn have {known}")
    return ids[value]


def name_of(value: Any) -> str:
    """Return the name that a model has for a label."""
    return class_name(value) if isinstance(value, str | int | float) else str(value)


def names_and_values(columns: Iterable[Dataset], names: Sequence[str]) -> dict[str, Any]:
    """Return the labels in datasets of one column by those of the `names` that they have.

    A `ClassLabel` has ids in its rows, and names beside them: its labels are the ids.
    """
    known = set(names)
    values: dict[str, Any] = {}
    for column in columns:
        ((column_name, feature),) = column.features.items()
        item_feature = getattr(feature, "feature", feature)  # that of the items of lists
        if isinstance(item_feature, ClassLabel):
            pairs: list[Any] = [(i, class_name(x)) for i, x in enumerate(item_feature.names)]
        else:
            pairs = _labels_and_names(column[column_name][:])
        values |= {name: value for value, name in pairs if name in known}
    return values


def _labels_and_names(cells: Iterable[Any]) -> list[tuple[Any, str]]:
    """Return the labels in cells, each a label or a list of them, with their names."""
    lists = (cell if isinstance(cell, list) else [cell] for cell in cells)
    labels = chain.from_iterable(lists)
    return [(x, name_of(x)) for x in labels if isinstance(x, str | int | float)]


def in_order(values: Sequence[Any]) -> list[int]:
    """Return the places of labels in their order; those of several types are ordered by name."""
    places = range(len(values))
    try:
        return sorted(places, key=lambda place: values[place])
    except TypeError:
        return sorted(places, key=lambda place: name_of(values[place]))


def as_array(values: list[Any], dtype: Any = None) -> np.ndarray:
    """Return labels as an array (C,), of objects unless all are of one type that numpy has.

    `dtype` is that of the labels of a fit, which a checkpoint to start from may have more of.
    """
    types = {type(value) for value in values}
    if isinstance(dtype, np.dtype) and dtype.kind in TIMES and str not in types:
        return np.array(values, dtype=dtype)
    if types in ({str}, {bool}, {int}, {float}, {np.datetime64}, {np.timedelta64}):
        return np.array(values, dtype=dtype if isinstance(dtype, np.dtype) else None)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def type_of_labels(values: Mapping[str, Any]) -> str:
    """Return the type of labels, by name, for `config.label_type`.

    It is "str" for all that are no numbers, and for ids with other names.
    """
    types = {type(value) for value in values.values()}
    if len(types) != 1 or any(name_of(value) != name for name, value in values.items()):
        return "str"
    return TYPES.get(types.pop(), "str")


def labels_by_type(names: Sequence[str], label_type: str) -> list[Any]:
    """Return the labels of the names of a model with this `config.label_type`."""
    if label_type == "bool" and {*names} <= {"true", "false"}:
        return [name == "true" for name in names]
    read: Any = {"int": int, "float": float}.get(label_type, str)
    try:
        return [read(name) for name in names]
    except ValueError:  # the labels were renamed
        return list(names)
