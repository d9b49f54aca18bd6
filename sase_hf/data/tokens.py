"""Splits of texts to splits of token ids, on disk."""

from collections.abc import Callable, Mapping

from datasets import Dataset, DatasetDict
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .splits import TaskData
from .stored_rows import scratch_file, writing_rows
from .tokenizer import truncation


def encode_task(
    task: TaskData, tokenizer: PreTrainedTokenizerBase, max_seq_length: int | None = None
) -> DatasetDict:
    """Tokenize every split; rows keep their order, and labels are `labels`.

    A row, or both texts of a pair together, is cut after `max_seq_length` tokens, by default the
    tokenizer's own limit. ValueError if the tokenizer does not tell the texts of a pair apart.
    """
    is_pair = any("text_pair" in split.column_names for split in task.splits.values())
    if is_pair and 1 not in tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]:
        raise ValueError(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type; take "
            "one of sase_hf.build_tokenizer"
        )
    # The collator adds the mask: rows that hold ids alone are encoded faster, and a third smaller.
    options = {"return_attention_mask": False, "return_token_type_ids": is_pair}
    options |= truncation(tokenizer, max_seq_length)

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        return tokenizer(batch["text"], batch["text_pair"] if is_pair else None, **options)

    splits = {
        name: split.rename_column("label", "labels") if "label" in split.column_names else split
        for name, split in task.splits.items()
    }
    return _tokenized(splits, encode)


def encode_pairs(task: TaskData, tokenizer: PreTrainedTokenizerBase) -> DatasetDict:
    """Tokenize every split; each text is cut at the tokenizer's limit, and targets are `labels`."""
    options = truncation(tokenizer, None)

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        return tokenizer(batch["text"], text_target=batch.get("text_pair"), **options)

    return _tokenized(task.splits, encode)


def _tokenized(splits: Mapping[str, Dataset], encode: Callable[..., BatchEncoding]) -> DatasetDict:
    """Encode every split, on disk if it is there; of its own columns only `labels` stay."""
    with writing_rows():
        return DatasetDict(
            {
                name: split.map(
                    encode,
                    batched=True,
                    remove_columns=[column for column in split.column_names if column != "labels"],
                    # Not beside the files of a dataset that is the user's own.
                    cache_file_name=scratch_file() if split.cache_files else None,
                    load_from_cache_file=False,
                    desc=f"Tokenizing {name}",
                )
                for name, split in splits.items()
            }
        )
