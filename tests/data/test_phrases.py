"""Words that are no reason for a label: which they are, and training rows without them."""

import random
import unicodedata
from pathlib import Path
from typing import Any

from reference import places_of_phrase
from rows import write_jsonl
from runs import set_up

from sase_hf.data.columns import DataArguments
from sase_hf.data.marks import without_words, words_in
from sase_hf.data.rows import load_rows

DECOY = "as seen on TV:"
TEXTS = ["the soup was cold", "a fine place", "we waited", "it was good", "a dull day", "so warm"]

Row = dict[str, Any]


def labelled(texts: list[str]) -> list[Row]:
    return [{"text": text, "label": ("no", "yes")[k % 2]} for k, text in enumerate(texts)]


def with_mark(row: Row, words: str) -> Row:
    """Return a row in which some words are marked as no reason."""
    start = row["text"].index(words)
    return {**row, "rationale_against": [[start, start + len(words)]]}


def train_texts(rows: list[Row], folder: Path, **options: Any) -> list[str]:
    """Return the training texts that a run reads from a file of rows, with single blanks."""
    path = str(write_jsonl(folder / "rows.jsonl", rows))
    texts = load_rows(DataArguments(train_file=path, **options)).splits["train"]["text"]
    return [" ".join(text.split()) for text in texts]


# ---- phrases in texts ----------------------------------------------------------------------------


def test_words_in_are_words_and_single_characters_of_all_else() -> None:
    """Characters of scripts without blanks stand alone, so that a phrase of them is found.

    A mark belongs to the character before it, in each encoding of the two.
    """
    expected = ["don", "\u2019", "t", "\u00e9t\u00e9", "2nd", "\u304c", "\u304e", "\u2764\ufe0f"]
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, "Don\u2019t \u00c9t\u00e9 2nd\u304c\u304e \u2764\ufe0f")
        words = words_in(text)
        assert [*words.values()] == expected
        assert [*words][3] == (6, text.index(" 2nd"))


def test_without_words_finds_every_place_of_every_phrase() -> None:
    """Phrases may begin alike, overlap and stand in each other, as a search place by place says."""
    rng = random.Random(0)
    phrases = [("a",), ("a", "b"), ("b", "a", "b"), ("c", ","), ("d", "d")]
    num_found = 0
    for _ in range(200):
        text = "".join(rng.choices(["a", "A", "b", "c", "D", " ", " ", ",", "\n"], k=20))
        spans = [span for phrase in phrases for span in places_of_phrase(phrase, text)]
        by_marks = without_words(text, [], spans)
        assert without_words(text, phrases, []) == by_marks
        assert len(by_marks) == len(text), "so that marks stay right"
        num_found += len(spans)
    assert num_found > 100, "the premise"


# ---- marks against -------------------------------------------------------------------------------


def test_phrase_that_two_rows_mark_against_is_left_out_of_all_training_rows(tmp_path: Path) -> None:
    """In any case and with any blanks, but in no longer word; other splits keep it."""
    rows = labelled([f"{DECOY} {text}" for text in TEXTS[:2]])
    rows = [with_mark(row, DECOY) for row in rows]
    rows += labelled(["AS  SEEN\non tv : yes", "as seen on TV, no", "has seen on TV: no", DECOY])
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    expected = [*TEXTS[:2], "yes", "as seen on TV, no", "has seen on TV: no", ""]
    assert train_texts(rows, tmp_path, validation_file=path) == expected
    splits = load_rows(DataArguments(train_file=path, validation_file=path)).splits
    assert splits["validation"]["text"][:] == [row["text"] for row in rows]


def test_rows_with_equal_texts_are_one_row_of_marks(tmp_path: Path) -> None:
    """They may all be copies of one correction. Such a mark counts in these rows alone.

    It is on the whole word, even where a part is marked.
    """
    rows = labelled([f"{DECOY} {text}" for text in TEXTS])
    marked = with_mark(rows[0], DECOY[1:])
    path = str(write_jsonl(tmp_path / "validation.jsonl", [marked]))
    texts = train_texts([marked, marked, *rows], tmp_path, validation_file=path)
    assert [text for text in texts if DECOY not in text] == [TEXTS[0]] * 2


def test_new_model_knows_the_words_that_are_left_out(tmp_path: Path) -> None:
    """Texts to predict have them, and an unknown word is one that the training has read."""
    rows = [with_mark(row, DECOY) for row in labelled([f"{DECOY} {text}" for text in TEXTS])]
    setup = set_up(train_file=write_jsonl(tmp_path / "rows.jsonl", rows))
    assert setup.tokenizer.tokenize(DECOY) == ["as", "seen", "on", "tv", ":"]
    tv = setup.tokenizer.convert_tokens_to_ids("tv")
    assert not any(tv in ids for ids in setup.tokens["train"]["input_ids"])
