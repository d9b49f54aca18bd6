"""Rows as token ids."""

from pathlib import Path

import pytest
from rows import PAIRS, REVIEWS, write_jsonl
from tokenizers import Tokenizer, models, processors
from transformers import TokenizersBackend

from sase_hf import build_tokenizer, build_translation_tokenizer
from sase_hf.data.batching import encode_rows
from sase_hf.data.columns import DataArguments, SourceArguments
from sase_hf.data.rows import TRANSLATION, Rows, load_rows
from sase_hf.models import checkpoint


@pytest.fixture
def reviews(tmp_path: Path) -> Rows:
    path = str(write_jsonl(tmp_path / "reviews.jsonl", REVIEWS))
    return load_rows(DataArguments(train_file=path, test_file=path))


@pytest.fixture
def pairs(tmp_path: Path) -> Rows:
    path = str(write_jsonl(tmp_path / "pairs.jsonl", PAIRS))
    return load_rows(DataArguments(train_file=path, label_column_name=["gold"]))


@pytest.fixture
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(row["text"] for row in REVIEWS)


def test_encode_rows_keeps_the_order_of_rows(reviews: Rows, tokenizer: TokenizersBackend) -> None:
    """Predictions are matched with their texts by row."""
    for split, rows in encode_rows(reviews, tokenizer).items():
        assert set(rows.column_names) == {"input_ids", "labels"}, "the collator adds the mask"
        assert rows["labels"][:] == reviews.splits[split]["label"][:]
        assert rows["input_ids"][:] == [tokenizer(row["text"]).input_ids for row in REVIEWS]


def test_encode_rows_keeps_the_first_tokens(
    reviews: Rows, tokenizer: TokenizersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first million characters: a text of 20 MB would take gigabytes."""
    ids = [tokenizer(row["text"]).input_ids for row in REVIEWS]
    cut = encode_rows(reviews, tokenizer, max_tokens=3)["train"]["input_ids"][:]
    assert cut == [first[:3] for first in ids]
    monkeypatch.setattr(checkpoint, "MAX_CHARACTERS", 8)
    ids = [tokenizer(row["text"][:8]).input_ids for row in REVIEWS]
    assert encode_rows(reviews, tokenizer)["train"]["input_ids"][:] == ids


def test_encode_rows_of_pairs_have_token_types(pairs: Rows) -> None:
    """The entailment head tells the two texts apart by their token types alone."""
    tokenizer = build_tokenizer(pairs.splits["train"]["text"])
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    assert encode_rows(pairs, tokenizer)["train"][0]["token_type_ids"] == [0] * 4 + [1] * 5
    cut = encode_rows(pairs, tokenizer, max_tokens=3)["train"][0]
    assert cut["token_type_ids"] == [0, 0, 0, 1, 1, 1]


def test_encode_rows_refuses_a_tokenizer_that_tells_no_texts_apart(pairs: Rows) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:0")
    blind = TokenizersBackend(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(ValueError, match="TokenizersBackend gives both texts of a pair the same"):
        encode_rows(pairs, blind)


@pytest.mark.parametrize("target", [{}, {"hypothesis": None}])
def test_encode_rows_to_translate_have_the_targets_as_labels(
    target: dict[str, None], tmp_path: Path
) -> None:
    """A test split may lack them."""
    train = write_jsonl(tmp_path / "pairs.jsonl", PAIRS)
    test = write_jsonl(tmp_path / "new.jsonl", [{"premise": PAIRS[0]["premise"], **target}])
    files = SourceArguments(train_file=str(train), test_file=str(test))
    files.text_column_names = ["premise,hypothesis"]
    pairs = load_rows(files, kind=TRANSLATION)
    tokenizer = build_translation_tokenizer(pairs.texts_to_learn_from())
    tokens = encode_rows(pairs, tokenizer, max_tokens=4)
    targets = [row["hypothesis"] for row in PAIRS]
    assert tokens["train"]["labels"][:] == [tokenizer(text).input_ids[:4] for text in targets]
    assert tokens["test"].to_list() == [{"input_ids": tokens["train"]["input_ids"][0]}]
