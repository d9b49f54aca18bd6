"""What a checkpoint was trained on: its columns are read again, and its rows are not new to it."""

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ..utils.privacy import redact
from ..utils.text import one_line
from .arguments import DataArguments, SourceArguments
from .sources import written_otherwise

logger = logging.getLogger(__name__)

ROWS_NAME = "training_rows.json"  # in the folder of a run: where its training rows come from
SETTINGS = "settings"  # its entry that is not about the rows: what a resumed run must have again

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
    names = training_rows_of(checkpoint).get(entry)
    if not isinstance(names, Sequence) or isinstance(names, str):
        return []
    return [name for name in names if isinstance(name, str)]


def training_rows_of(checkpoint: str | None) -> Mapping[str, Any]:
    """Return the record of the rows that a checkpoint was trained on; empty if there is none."""
    if checkpoint is None:
        return {}
    for folder in (Path(checkpoint), Path(checkpoint).absolute().parent):
        try:
            record = json.loads((folder / ROWS_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            return record
    return {}


def warn_of_learned_rows(
    checkpoint: str | None, read: Mapping[str, Any], held_out: Mapping[str, Any]
) -> None:
    """Warn that held-out rows may be ones that a checkpoint has learned from.

    Rows are held out anew for each run. They are those of the checkpoint's run, and so unknown to
    it, only if both read the same rows.

    Args:
        checkpoint: Where the run starts from; None for a new model.
        read: The record of the training rows of the run, as in `ROWS_NAME`.
        held_out: The origin of its validation rows.
    """
    if checkpoint is None or "split_off" not in held_out:
        return
    before = training_rows_of(checkpoint)
    now = json.loads(json.dumps(redact(read)))
    names = (before.keys() | now.keys()) - {"file", SETTINGS}  # a file may have been renamed
    if before and all(before.get(name) == now.get(name) for name in names):
        return
    origin = "does not say on which rows it was trained"
    if before:
        source = before.get("file", before.get("dataset"))
        origin = f"was trained on {before.get('rows')} rows of {source}, which are not those of now"
    logger.warning(
        f"{checkpoint} {origin}: if some of them are held out now, it looks better on these than "
        "on new rows; give rows that it has not learned from as --validation_file"
    )
