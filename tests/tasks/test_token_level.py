"""The tokens that a new model reads: words or pieces of words."""

import random
from pathlib import Path
from typing import Any

import pytest
from runs import TINY_MODEL, flags, pair_rows, write_rows, write_splits

from sase_hf.data.tokenizer import built_settings
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import parse_arguments

STEMS = ["kitap", "deniz", "orman", "yaprak", "pencere", "sokak", "toprak", "yazar"]
ENDINGS = ["", "lar", "da", "larda", "im", "larim", "dan", "larimdan", "in", "larinda", "la", "sin"]


@pytest.fixture
def endings(tmp_path: Path) -> dict[str, str]:
    """A file of 80 texts whose words have endings."""
    rng = random.Random(0)

    def word() -> str:
        return rng.choice(STEMS) + rng.choice("aeiou") + rng.choice(ENDINGS) + rng.choice(ENDINGS)

    rows = [{"text": " ".join(word() for _ in range(9)), "label": "ab"[n % 2]} for n in range(80)]
    return {"train_file": write_rows(tmp_path / "endings.jsonl", rows)}


def level_of(**options: Any) -> Any:
    """Return the level of a new model's tokenizer."""
    setup = parse_arguments(LabelTask, flags(**{**TINY_MODEL, **options})).assemble()
    return (built_settings(setup.tokenizer) or {}).get("level")


def test_level_is_measured_on_the_texts(endings: dict[str, str], reviews: dict[str, str]) -> None:
    assert level_of(**endings) == "subword"
    assert level_of(**endings, level="word") == "word"
    assert level_of(**reviews) == "word"


def test_level_of_pairs_and_beside_vectors_of_a_file_is_words(
    endings: dict[str, str], tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("kitapalar 1 2 3\nkitapa 0 1 0\n")
    options = {"word_vectors": vectors, "embedding_size": None}
    assert level_of(**endings, **options) == "word"
    assert level_of(**write_splits(tmp_path, pair_rows)) == "word"
    with pytest.raises(ValueError, match=r"--level is subword, but the vectors of .* --level word"):
        level_of(**endings, **options, level="subword")


def test_level_of_a_ready_tokenizer_is_not_measured(
    endings: dict[str, str], tmp_path: Path
) -> None:
    task = parse_arguments(LabelTask, flags(**TINY_MODEL, **endings))
    task.assemble().tokenizer.save_pretrained(tmp_path / "ready")
    assert level_of(**endings, tokenizer_name=tmp_path / "ready") == "subword"
    with pytest.raises(ValueError, match="--level cannot change a ready tokenizer"):
        level_of(**endings, tokenizer_name=tmp_path / "ready", level="word")
