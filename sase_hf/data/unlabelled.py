"""Texts without labels, for the words and the word vectors of a new model."""

from datasets import Dataset, concatenate_datasets

from ..utils.errors import refusal
from .arguments import DataArguments
from .columns import find_text
from .sources import TEXT_COLUMNS, Columns, FileSplit, Origin


def load_unlabelled(
    arguments: DataArguments, text_columns: tuple[str, ...]
) -> tuple[Dataset | None, dict[str, Origin]]:
    """Return the texts of `--unlabelled_file`, column `text`, and the origin of each file's rows.

    The column is that of the training rows or, where a file has none of that name and no flag
    names it, the only one that holds texts. ValueError is raised for training rows of pairs, and
    for a file without rows, without a column of texts, or with a text that cannot be read.
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
    texts = []
    origins = {}
    for number, path in enumerate(files, start=1):
        split = FileSplit.of_file("unlabelled", path)
        texts.append(_texts_of(split, text_columns[0], arguments.text_column_names is not None))
        name = "unlabelled" if number == 1 else f"unlabelled_{number}"
        origins[name] = {**split.source, "rows": split.num_rows}
    return concatenate_datasets(texts), origins


def _texts_of(split: FileSplit, column: str, is_asked: bool) -> Dataset:
    """Read the texts; the column may have another name if no flag asks for this one."""
    sample = next(split.batches(), {})
    split.adopt_names([column])
    if sample and not is_asked and column not in split.column_names:
        column = find_text(split.title, sample)
    split.read(Columns((column,), ()))
    split.require([column], "--text_column_names")
    return split.named_texts({column: TEXT_COLUMNS[0]})
