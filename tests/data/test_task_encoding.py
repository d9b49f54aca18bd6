"""From a task's texts to the rows that a model reads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from rows import PAIRS, REVIEWS, write_jsonl
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import TokenizersBackend

from sase_hf import build_tokenizer
from sase_hf.data.arguments import DataArguments
from sase_hf.data.task import TaskData, encode_task, load_task


def load(**fields: Any) -> TaskData:
    """Load the rows that the fields of `DataArguments` name."""
    return load_task(DataArguments(**fields))


@pytest.fixture
def reviews(tmp_path: Path) -> TaskData:
    """Four labelled reviews, to train on and to predict."""
    path = write_jsonl(tmp_path / "reviews.jsonl", REVIEWS)
    return load(train_file=path, test_file=path)


@pytest.fixture
def pairs(tmp_path: Path) -> TaskData:
    """Three labelled pairs."""
    path = write_jsonl(tmp_path / "pairs.jsonl", PAIRS)
    return load(
        train_file=path, text_column_names=("premise", "hypothesis"), label_column_name="gold"
    )


@pytest.fixture
def tokenizer() -> TokenizersBackend:
    """A tokenizer that knows the words of the reviews."""
    return build_tokenizer(row["text"] for row in REVIEWS)


def test_encoding_keeps_rows_and_labels(reviews: TaskData, tokenizer: TokenizersBackend) -> None:
    """Predictions are written row by row and must meet their texts again."""
    rows = encode_task(reviews, tokenizer)
    for split in ("train", "test"):
        assert set(rows[split].column_names) == {*tokenizer.model_input_names, "labels"}
        assert rows[split]["labels"][:] == reviews.splits[split]["label"][:]
        assert rows[split]["input_ids"][:] == [tokenizer(row["text"]).input_ids for row in REVIEWS]


def test_rows_without_labels_are_encoded_without(tokenizer: TokenizersBackend) -> None:
    """A `Trainer` would otherwise measure what nobody knows."""
    splits = DatasetDict(test=Dataset.from_dict({"text": ["The soup."]}))
    task = TaskData(splits, "single_label_classification", ("bad", "good"), {})
    assert "labels" not in encode_task(task, tokenizer)["test"].column_names


def test_encoding_of_pairs_marks_the_second_text(pairs: TaskData) -> None:
    """The entailment head tells the two apart by nothing else."""
    tokenizer = build_tokenizer(pairs.splits["train"]["text"])
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    row = encode_task(pairs, tokenizer)["train"][0]
    assert row["token_type_ids"] == [0] * 4 + [1] * 5
    assert encode_task(pairs, tokenizer, max_seq_length=4)["train"][0]["token_type_ids"] == [
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("limit", "max_length", "expected"), [(1024, 2, 2), (3, None, 3), (3, 5, 5), (10**30, None, 6)]
)
def test_texts_are_cut_to_the_length_asked_for(
    reviews: TaskData, limit: int, max_length: int | None, expected: int
) -> None:
    """Without a length, the tokenizer's own limit holds; without that, nothing is cut."""
    tokenizer = build_tokenizer(reviews.splits["train"]["text"], model_max_length=limit)
    rows = encode_task(reviews, tokenizer, max_length)["train"]
    assert max(map(len, rows["input_ids"])) == expected


def test_encoding_leaves_nothing_beside_the_rows(
    tmp_path: Path, reviews: TaskData, tokenizer: TokenizersBackend
) -> None:
    """Also where somebody's own splits lie on disk, beside which `datasets` caches."""
    reviews.splits.save_to_disk(tmp_path / "saved")
    before = set(tmp_path.rglob("*"))
    saved = replace(reviews, splits=DatasetDict.load_from_disk(tmp_path / "saved"))
    assert saved.splits["train"].cache_files, "the premise: they lie on disk"
    rows = encode_task(saved, tokenizer)
    assert rows["train"]["labels"][:] == reviews.splits["train"]["label"][:]
    assert set(tmp_path.rglob("*")) == before


def test_encoding_refuses_what_it_cannot_do(reviews: TaskData, pairs: TaskData) -> None:
    """No token would be left, or both texts of a pair would be one."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:0")
    blind = TokenizersBackend(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(ValueError, match="max_seq_length is 0; it must be 1 or more"):
        encode_task(reviews, blind, max_seq_length=0)
    with pytest.raises(ValueError, match="TokenizersBackend gives the second text of a pair no"):
        encode_task(pairs, blind)
