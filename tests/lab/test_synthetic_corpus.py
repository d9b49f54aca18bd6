"""scripts/lab/synthetic_corpus.py: the same rows everywhere, balanced."""

import gzip
import json
import re
from collections import Counter

import pytest
from synthetic_corpus import PAIR_SIZES, REVIEW_SIZES, corpus_files

from sase_hf.commands.quickstart import CORPUS
from sase_hf.data.arguments import SPLITS


def test_corpus_files_are_those_of_the_package() -> None:
    """Numbers measured on two machines, or by two versions, can be compared."""
    packed = {path.stem: gzip.decompress(path.read_bytes()) for path in CORPUS.glob("*.gz")}
    assert {name: text.encode() for name, text in corpus_files()} == packed


@pytest.mark.parametrize(
    ("name", "columns", "sizes", "num_labels"),
    [("reviews", ["text"], REVIEW_SIZES, 5), ("pairs", ["premise", "hypothesis"], PAIR_SIZES, 3)],
)
def test_corpus_files_balance_labels_and_repeat_no_text(
    name: str, columns: list[str], sizes: tuple[int, ...], num_labels: int
) -> None:
    """The most frequent label scores one in five, or in three, and no row was trained on."""
    files = dict(corpus_files())
    texts = []
    for split, size in zip(SPLITS, sizes, strict=True):
        rows = [json.loads(line) for line in files[f"{name}.{split}.jsonl"].splitlines()]
        counts = Counter(row["label"] for row in rows)
        assert sorted(counts.values()) == [size // num_labels] * num_labels
        assert {row["source"] for row in rows} == {"synthetic"}
        for row in rows:
            assert all(re.fullmatch(r"[A-Z][^{}|]*\.", row[column]) for column in columns)
        texts += [row[columns[0]] for row in rows]
    assert len(texts) == len(set(texts))
