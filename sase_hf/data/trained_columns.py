"""The columns that a model was trained on: rows of the same form are read from these."""

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ..utils.text import one_line
from .arguments import DataArguments, SourceArguments
from .sources import written_otherwise

logger = logging.getLogger(__name__)

ROWS_NAME = "training_rows.json"  # in the folder of a run: where its training rows come from

_Arguments = TypeVar("_Arguments", bound=SourceArguments)


def with_trained_columns(
    arguments: _Arguments,
    checkpoint: str | None,
    title: str,
    columns: Collection[str],
    *,
    num_texts: int | None = None,
) -> _Arguments:
    """Return arguments that name the columns of a checkpoint's training, if no flag names others.

    Args:
        arguments: The flags.
        checkpoint: A folder of a run, or a checkpoint in it; None if there is no model yet.
        title: The source of rows, for a warning that it lacks the columns of texts.
        columns: The names of the source's columns.
        num_texts: How many of the columns of texts the source must have; by default all.
    """
    texts = _names(checkpoint, "text_column_names")
    if texts and arguments.text_column_names is None:
        present = _in_source(texts, columns)
        if set(present[:num_texts]) <= set(columns):
            arguments = replace(arguments, text_column_names=present)
        else:
            note = f"the model was trained on {','.join(texts)}, which {title} does not have"
            logger.warning(one_line(f"{note}; --text_column_names chooses what is read"))
    if not isinstance(arguments, DataArguments) or arguments.label_column_name is not None:
        return arguments
    labels = _in_source(_names(checkpoint, "label_column_name"), columns)
    if labels and set(labels) <= set(columns):
        arguments = replace(arguments, label_column_name=",".join(labels))
    return arguments


def _in_source(names: Sequence[str], columns: Collection[str]) -> list[str]:
    """Return names as the source writes them, if these differ in case or blanks only."""
    written = []
    for name in names:
        other = None if name in columns else written_otherwise(name, columns)
        written.append(other or name)
    return written


def _names(checkpoint: str | None, entry: str) -> list[str]:
    """Return the columns that the record of a run names; none without a record."""
    if checkpoint is None:
        return []
    for folder in (Path(checkpoint), Path(checkpoint).absolute().parent):
        names = _entry(folder / ROWS_NAME, entry)
        if isinstance(names, Sequence) and not isinstance(names, str):
            return [name for name in names if isinstance(name, str)]
    return []


def _entry(path: Path, entry: str) -> object:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record.get(entry) if isinstance(record, dict) else None
