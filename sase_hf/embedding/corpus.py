"""The rows of files, or of a dataset on the Hub, read slice by slice and never held as a whole.

A Parquet file is read one row group at a time. A dataset on the Hub is mapped from the cache of
`datasets`, and a text file from a temporary file, to which its rows are copied and checked.
"""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, count
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from datasets import Features, load_dataset

from ..data.rows import read_parts, wrap_read_errors
from ..data.sources import (
    Origin,
    check_class_names,
    commit_of,
    described_features,
    origin_of,
)
from ..data.tokenizer import text_fault
from ..utils.errors import refusal

ROWS_PER_CHUNK = 10_000  # rows of a text file that are Python objects at the same time
_FOOTER_TAIL = 8  # a Parquet file ends with the size of its footer, 4 bytes, and "PAR1"


class Corpus:
    """The rows of some named sources, one source after the other.

    The `wanted` columns are read, by default all. The schemas of the sources are unified, and a
    column that a source lacks is null. Raises ValueError if there are no rows, or columns of two
    sources do not go together.
    """

    def __init__(
        self, sources: Sequence[tuple[str, pds.Dataset]], wanted: Collection[str] | None = None
    ) -> None:
        self._sources = [(name, data) for name, data in sources if data.count_rows()]
        if not self._sources:
            raise ValueError("the input has no rows; name other files, or another dataset")
        schemas = {name: _wanted_part(data.schema, wanted) for name, data in self._sources}
        self.schema = _unified([*schemas.values()])
        features_of = {name: _flat_features(schema) for name, schema in schemas.items()}
        columns = list(dict.fromkeys(chain.from_iterable(features_of.values())))
        check_class_names(features_of, columns, ", or leave it out with --keep_columns")
        self._parts = [part for _, data in self._sources for part in _parts_of(data)]
        self._starts = [0, *accumulate(num_rows for _, num_rows in self._parts)]
        self.num_rows = self._starts[-1]

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows start, ..., stop - 1."""
        schema = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        tables = []
        while start < stop:
            number = bisect_right(self._starts, start) - 1
            part = _read(self._parts[number][0], schema)
            tables.append(part.slice(start - self._starts[number], stop - start))
            start += tables[-1].num_rows
        return pa.concat_tables(tables)

    def check_columns(self, text_column: str, kept: Sequence[str]) -> None:
        """Raise ValueError unless each row has a text, and Parquet can hold the kept columns."""
        names = dict.fromkeys(name for _, data in self._sources for name in data.schema.names)
        for column in (text_column, *kept):
            if column not in names:
                flags = "--text_column_names and --keep_columns" if kept else "--text_column_names"
                raise ValueError(
                    f"the input has no column {column!r}; it has {', '.join(map(repr, names))}. "
                    f"Choose with {flags}"
                )
        kind = self.schema.field(text_column).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        if values not in (pa.string(), pa.large_string(), pa.string_view()):
            raise ValueError(f"column {text_column!r} holds values of type {kind}, not texts")
        is_null = pds.field(text_column).is_null()
        for name, data in self._sources:
            if text_column not in data.schema.names:
                raise ValueError(f"{name} has no column {text_column!r}, and other files have it")
            # Where a Parquet file has statistics of the column, this reads nothing else.
            if data.count_rows(filter=is_null):
                row = data.to_table(columns=[text_column])[text_column].is_null().index(True)
                place = f"row {row} (counted from 0) of {name}, column {text_column!r}"
                raise ValueError(f"{place}: the text is missing; an empty one is allowed")
        schema = pa.schema([self.schema.field(name) for name in kept])
        try:
            pq.write_table(schema.empty_table(), pa.BufferOutputStream())
        except pa.ArrowException as reason:
            raise refusal(
                f"Parquet cannot hold a column: {reason}", "leave it out with --keep_columns"
            ) from reason


def open_files(
    files: Sequence[str], text_column: str, keep_columns: Sequence[str] | None
) -> Corpus:
    """Return the rows of files; those of text files are checked."""
    wanted = None if keep_columns is None else list(dict.fromkeys([text_column, *keep_columns]))
    sources = []
    for file in files:
        with wrap_read_errors(file):
            is_parquet = file.lower().endswith(".parquet")
            data = file if is_parquet else _map(file, text_column, wanted)
            sources.append((file, pds.dataset(data)))
    return Corpus(sources, wanted)


def open_hub_split(
    name: str, config_name: str | None, revision: str | None, split: str
) -> tuple[Corpus, Origin]:
    """Return the rows of one split of a dataset on the Hub, and facts that distinguish them."""
    if os.path.isdir(name):
        raise ValueError(f"{name} is a folder; name the files in it instead of --dataset_name")
    data = load_dataset(name, name=config_name, revision=revision, split=split)
    identity: Origin = {"dataset": name, "config": config_name, "split": split}
    identity["revision"] = commit_of(data) or revision
    rows = data.with_format("arrow")[:]
    rows = rows.replace_schema_metadata(data.features.arrow_schema.metadata)
    return Corpus([(f"{name}, split {split}", pds.dataset(rows))]), identity


def identify(file: str) -> Origin:
    """Return facts that distinguish the content of a file from another's.

    A text file is known by its SHA-256. A Parquet file may be too large to read twice, so it is
    known by its size and its footer, which holds the place and bounds of every piece of a column.
    """
    if not file.lower().endswith(".parquet"):
        return origin_of(file)
    with wrap_read_errors(file):
        footer = pq.read_metadata(file).serialized_size + _FOOTER_TAIL
        with open(file, "rb") as handle:
            size = handle.seek(-footer, os.SEEK_END) + footer
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        return {"file": os.path.basename(file), "size": size, "footer_sha256": digest}


def _parts_of(data: pds.Dataset) -> Iterator[tuple[pds.Fragment, int]]:
    """Yield the row groups of a Parquet file, or the batches of a table, and their rows."""
    for fragment in data.get_fragments():
        if isinstance(fragment, pds.ParquetFileFragment):
            for group in fragment.split_by_row_group():
                yield group, group.row_groups[0].num_rows
        else:
            yield fragment, fragment.count_rows()


@lru_cache(maxsize=1)  # the next slice often begins in the same row group
def _read(fragment: pds.Fragment, schema: pa.Schema) -> pa.Table:
    return fragment.to_table(schema=schema)


def _map(file: str, text_column: str, wanted: list[str] | None) -> pa.Table:
    """Check that each row of a text file has a text; return the wanted columns, by default all."""
    schemas, numbers = [], count()
    for chunk in read_parts(file, ROWS_PER_CHUNK):
        for row, number in zip(chunk, numbers, strict=False):
            fault = text_fault(row.get(text_column))
            if fault:
                raise refusal(
                    f"row {number} (counted from 0), column {text_column!r}: {fault}",
                    f"choose one of {', '.join(map(repr, row))} with --text_column_names",
                )
        if wanted is not None:
            chunk = [{name: row[name] for name in wanted if name in row} for row in chunk]
        names = dict.fromkeys(chain.from_iterable(chunk))
        arrays = _arrays(chunk, dict.fromkeys(names))
        schemas.append(pa.schema([(name, array.type) for name, array in arrays.items()]))
    schema = _unified(schemas or [pa.schema([])])
    # The mapping outlives the name of the file, so nothing is left when this process is killed.
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        path = os.path.join(scratch, "rows.arrow")
        with pa.ipc.new_file(path, schema) as writer:
            for chunk in read_parts(file, ROWS_PER_CHUNK):
                arrays = _arrays(chunk, dict(zip(schema.names, schema.types, strict=True)))
                writer.write_table(pa.table(arrays, schema=schema))
        return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _arrays(
    rows: Sequence[Mapping[str, object]], types: Mapping[str, pa.DataType | None]
) -> dict[str, pa.Array]:
    """Return the columns of some rows, of types that are named or else those of the values."""
    arrays = {}
    for name, kind in types.items():
        try:
            arrays[name] = pa.array([row.get(name) for row in rows], kind)
        except (pa.ArrowException, ValueError, OverflowError) as reason:
            raise refusal(
                f"column {name!r}: {reason}", "leave it out with --keep_columns"
            ) from None
    return arrays


def _wanted_part(schema: pa.Schema, wanted: Collection[str] | None) -> pa.Schema:
    """Return the columns that are wanted, by default all; others need not go together."""
    fields = [field for field in schema if wanted is None or field.name in wanted]
    return pa.schema(fields, schema.metadata)


def _flat_features(schema: pa.Schema) -> Mapping[str, object]:
    """Return what `datasets` says of each column, of fields of objects by `column.field`."""
    flat: dict[str, object] = {}
    for name, feature in described_features(schema).items():
        if isinstance(feature, pa.DataType):
            flat[name] = feature
        else:
            flat |= Features({name: feature}).flatten()
    return flat


def _unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return one schema for all, with the wider of two types.

    A column of categories is one of their values where another file has another type.
    """
    types: dict[str, set[pa.DataType]] = {}
    for field in chain.from_iterable(schemas):
        types.setdefault(field.name, set()).add(field.type)
    plain = []
    for schema in schemas:
        fields = []
        for field in schema:
            is_category = pa.types.is_dictionary(field.type)
            if is_category and len(types[field.name]) > 1:
                field = field.with_type(field.type.value_type)
            fields.append(field)
        plain.append(pa.schema(fields, schema.metadata))
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as reason:
        raise refusal(
            f"the columns do not go together: {reason}", "leave this one out with --keep_columns"
        ) from reason


def read_texts(file: str, text_column_name: str) -> list[str]:
    """Return the texts of a column; raise ValueError if a row has none, or there is no column."""
    corpus = open_files([file], text_column_name, [])
    corpus.check_columns(text_column_name, [])
    table = corpus.read(0, corpus.num_rows, [text_column_name])
    return list(table[text_column_name].to_pylist())
