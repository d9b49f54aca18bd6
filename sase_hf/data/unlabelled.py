"""Texts without labels, for the words and the word vectors of a new model."""

import logging

import numpy as np
from datasets import Dataset, concatenate_datasets

from ..utils.errors import refusal
from ..utils.files import is_same_file
from ..utils.text import one_line
from .arguments import SPLITS, DataArguments
from .columns import find_text
from .sources import TEXT_COLUMNS, Columns, FileSplit, Origin, numbered

logger = logging.getLogger(__name__)


def load_unlabelled(
    arguments: DataArguments, text_columns: tuple[str, ...]
) -> tuple[Dataset | None, dict[str, Origin]]:
    """Return the texts of `--unlabelled_file`, column `text`, and the origin of each file's rows.

    The column is that of the training rows or, where a file has none of that name and no flag
    names it, the only one that holds texts. ValueError is raised for training rows of pairs, and
    for a file without rows, without a column of texts, with a text that cannot be read, or that is
    read already. Rows without a text are left out.
    """
    files = arguments.unlabelled_file or []
    if not files:
        return None, {}
    if len(text_columns) > 1:
        raise refusal(
            f"--unlabelled_file is {' '.join(files)}, but the rows are pairs of texts, "
            f"{','.join(text_columns)}",
            "leave it out; only a new model of single texts reads it",
        )
    _check_read_once(files, arguments)
    texts = []
    origins = {}
    for number, path in enumerate(files, start=1):
        split = FileSplit.of_file("unlabelled", path)
        rows = _texts_of(split, text_columns[0], arguments.text_column_names is not None)
        texts.append(rows)
        origins[numbered("unlabelled", number)] = {**split.source, "rows": rows.num_rows}
    return concatenate_datasets(texts), origins


def _check_read_once(files: list[str], arguments: DataArguments) -> None:
    """Raise ValueError for a file that another flag names, or the same flag before."""
    read = {path: f"--{split}_file" for split in SPLITS if (path := arguments.file_of(split))}
    for path in files:
        for known, flag in read.items():
            if is_same_file(path, known):
                raise refusal(
                    f"--unlabelled_file {path} is read by {flag}, too", "name each file once"
                )
        read[path] = "--unlabelled_file"


def _texts_of(split: FileSplit, column: str, is_asked: bool) -> Dataset:
    """Read the texts; the column may have another name if no flag asks for this one."""
    sample = next(split.batches(), {})
    split.adopt_names([column])
    if sample and not is_asked and column not in split.column_names:
        column = find_text(split.title, sample)
        logger.warning(one_line(f"{split.title}: the texts are read from column {column!r}"))
    split.read(Columns((column,), ()))
    split.require([column], f"the name {column!r} for its column of texts")
    empty = split.rows_without_text(column)
    if len(empty) == split.num_rows:
        raise refusal(f"{split.title} has no text in column {column!r}", "leave the file out")
    if empty:
        logger.warning(one_line(f"left {len(empty):,} rows without a text out of {split.title}"))
    rows = split.named_texts({column: TEXT_COLUMNS[0]}, left_out=set(empty))
    return rows.select(np.setdiff1d(np.arange(split.num_rows), empty))
