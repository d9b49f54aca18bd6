"""Rows as a model takes them: those of a file for a trained one, and all as token ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from datasets import DatasetDict
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from ..models.answers import answers_of
from ..models.checked_model import first_places, readable
from ..utils.errors import refusal
from .arguments import DataArguments
from .columns import SPAN_COLUMNS
from .marks import marked_tokens
from .rows import Rows, load_rows
from .table import PROBABILITIES, TEXT_COLUMNS, scratch_file, writing_rows

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


def rows_for_model(
    checkpoint: str,
    model: PreTrainedModel,
    file: str,
    text_column_names: list[str] | None = None,
    label_column_name: str | None = None,
    with_marks: bool = False,
) -> Rows:
    """Read the rows of a file for a model, as a test split, which may lack labels.

    Columns that are None are found by name; a `label_column_name` of "" reads no labels. Marks are
    read on request. Errors name the `checkpoint` of the model. Raises ValueError if the rows do not
    fit the model.
    """
    rows = load_rows(
        DataArguments(
            test_file=file,
            text_column_names=text_column_names,
            label_column_name=label_column_name,
            problem_type=model.config.problem_type,
            label_names=list(answers_of(model.config).names),
        ),
        against=with_marks,
        checkpoint=checkpoint,
    )
    if model.reads_pairs and len(rows.text_columns) != 2:
        raise refusal(
            f"{checkpoint} compares two texts",
            "name two columns, such as --text_column_names premise,hypothesis",
        )
    return rows


def encode_rows(
    rows: Rows,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int | None = None,
) -> DatasetDict:
    """Tokenize every split; rows keep their order, labels are `labels`, and marks `rationale`.

    Of each text the first `max_tokens` tokens are kept, by default all: a model reads no others
    than `config.max_tokens`. Marks are 1 on each token that a span touches, else 0. ValueError if
    the tokenizer does not tell the texts of a pair apart.
    """
    is_pair = any("text_pair" in split.column_names for split in rows.splits.values())
    types_of_pair = tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]
    if is_pair and 1 not in types_of_pair:
        raise refusal(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type",
            "take one of sase_hf.build_tokenizer",
        )
    options = {
        # The collator adds the mask: rows that hold ids alone are encoded faster, and a third
        # smaller.
        "return_attention_mask": False,
        "return_token_type_ids": is_pair,
        "verbose": False,  # no warning of a limit of the tokenizer
    }

    def encode(batch: Batch) -> dict[str, Any]:
        names = TEXT_COLUMNS if is_pair else TEXT_COLUMNS[:1]
        is_marked = any(name in batch for name in SPAN_COLUMNS)
        texts = [list(map(readable, batch[name])) for name in names]
        encoded = tokenizer(*texts, return_offsets_mapping=is_marked, **options)
        if is_marked:
            encoded["rationale"] = list(_marks(encoded, batch))
            del encoded["offset_mapping"]
        return _first_tokens(encoded, max_tokens)

    return _tokenized(rows, encode)


def _first_tokens(encoded: BatchEncoding, max_tokens: int | None) -> dict[str, Any]:
    """Keep the first tokens of each text of the rows, as `encode_rows` does."""
    columns = dict(encoded)
    for row, ids in enumerate(columns["input_ids"]):
        if max_tokens is None or len(ids) <= max_tokens:
            continue
        one_text = [0] * len(ids)
        sides = columns["token_type_ids"][row] if "token_type_ids" in columns else one_text
        kept = first_places(sides, max_tokens)
        for column in columns.values():
            column[row] = [column[row][place] for place in kept]
    return columns


def _marks(encoded: BatchEncoding, batch: Batch) -> Iterator[list[int]]:
    """Yield for each row 1 on its marked tokens and 0 on the others."""
    for row, offsets in enumerate(encoded["offset_mapping"]):
        marks_of_side = []
        for name in SPAN_COLUMNS:
            spans = batch[name][row] if name in batch else []
            marks_of_side.append(marked_tokens(offsets, spans))
        marks = []
        for token, side in enumerate(encoded.sequence_ids(row)):
            if side is None:  # a special token
                marks.append(0)
            else:
                marks.append(marks_of_side[side][token])
        yield marks


def encode_pairs(rows: Rows, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> DatasetDict:
    """Tokenize every split; of each text the first tokens are kept, and targets are `labels`."""

    def encode(batch: Batch) -> dict[str, Any]:
        targets = list(map(readable, batch["text_pair"])) if "text_pair" in batch else None
        sources = list(map(readable, batch["text"]))
        encoded = tokenizer(sources, text_target=targets, verbose=False)
        return {name: [row[:max_tokens] for row in rows] for name, rows in encoded.items()}

    return _tokenized(rows, encode)


def _tokenized(rows: Rows, encode: Callable[[Batch], dict[str, Any]]) -> DatasetDict:
    """Encode every split, on disk if it is there; of the old columns keep only what is learnt."""
    splits = {}
    for name, split in rows.splits.items():
        for target in (PROBABILITIES, "label"):
            if target in split.column_names:
                split = split.rename_column(target, "labels")
                break
        with writing_rows():
            splits[name] = split.map(
                encode,
                batched=True,
                remove_columns=[column for column in split.column_names if column != "labels"],
                # By default the cache would lie beside the user's own dataset files.
                cache_file_name=scratch_file() if split.cache_files else None,
                load_from_cache_file=False,
                desc=f"Tokenizing {name}",
            )
    return DatasetDict(splits)
