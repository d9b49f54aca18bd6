"""The synthetic corpus: reproducible, balanced, honest about itself, no bag of words."""

import hashlib
import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import synthetic
from synthetic import pairs, reviews, write_corpus

SIZES = {"train": 300, "validation": 60, "test": 60}
# A change of the grammar or of the drawing changes it, and with it every number that was measured.
DIGEST_OF_SEED_0 = "406b20a5247431e887e1d0d59af870cd7c246bb61a71295e24f9bd5cdc12c552"

Row = dict[str, str]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus that the tests only read."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), 0, SIZES, SIZES)


def digest(folder: Path) -> str:
    """Return one digest of the names and the bytes of all files."""
    sums = [path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir())]
    return hashlib.sha256(b"".join(sums)).hexdigest()


def test_corpus_of_a_seed_has_the_same_bytes_everywhere(corpus: Path) -> None:
    """Numbers measured on two machines can be compared."""
    assert digest(corpus) == DIGEST_OF_SEED_0


@pytest.mark.parametrize(
    ("name", "columns", "num_labels"),
    [("reviews", ["text"], 5), ("pairs", ["premise", "hypothesis"], 3)],
)
def test_corpus_has_balanced_labels_and_no_text_twice(
    corpus: Path, name: str, columns: list[str], num_labels: int
) -> None:
    """The most frequent label scores one in five, or in three, and no row was trained on."""
    texts = []
    for split, size in SIZES.items():
        lines = (corpus / f"{name}.{split}.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        counts = Counter(row["label"] for row in rows)
        assert sorted(counts.values()) == [size // num_labels] * num_labels
        assert {row["source"] for row in rows} == {"synthetic"}
        for row in rows:
            assert all(re.fullmatch(r"[A-Z][^{}|]*\.", row[column]) for column in columns)
        texts += [row[columns[0]] for row in rows]
    assert len(texts) == len(set(texts))


def test_review_grammar_mirrors_the_happy_half() -> None:
    """Only praise and blame change places, and no template can stand for two numbers of stars."""
    assert reviews.mirrored("{we} {loved} the {part}") == "{we} {hated} the {part}"
    for stars in (5, 4):
        for template in itertools.chain(*reviews.TEMPLATES[stars].values()):
            assert reviews.mirrored(template) != template
            assert reviews.mirrored(reviews.mirrored(template)) == template


def test_pair_grammar_uses_both_statements_of_an_entailment_under_every_relation() -> None:
    """Otherwise a word of one sentence would betray the label."""
    for label in pairs.LABELS:
        names = " ".join(pairs.CASES[">", label]).replace("not-", "").split()
        assert names.count("P") == names.count("H")


def test_corpus_larger_than_the_grammar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a larger size than the grammar can give would run for ever or repeat rows."""
    one = {"text": "The only one.", "phenomenon": "degree"}
    monkeypatch.setattr(synthetic, "draw_review", lambda draw, stars: one)
    with pytest.raises(ValueError, match=r"no new text after 1 of 420 rows.*ask for fewer rows"):
        write_corpus(tmp_path, 0, SIZES, SIZES)
