"""The synthetic corpus: the same everywhere, balanced."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from sase_hf.commands.synthetic import write_corpus

SIZES = {"train": 300, "validation": 60, "test": 60}
# A change of the grammar or of the drawing changes it, and with it every number that was measured.
DIGEST_OF_SEED_0 = "406b20a5247431e887e1d0d59af870cd7c246bb61a71295e24f9bd5cdc12c552"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"), 0, SIZES, SIZES)


def test_write_corpus_gives_a_seed_the_same_bytes_everywhere(corpus: Path) -> None:
    """Numbers measured on two machines can be compared."""
    sums = [path.name.encode() + path.read_bytes() for path in sorted(corpus.iterdir())]
    assert hashlib.sha256(b"".join(sums)).hexdigest() == DIGEST_OF_SEED_0


@pytest.mark.parametrize(
    ("name", "columns", "num_labels"),
    [("reviews", ["text"], 5), ("pairs", ["premise", "hypothesis"], 3)],
)
def test_write_corpus_balances_labels_and_repeats_no_text(
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
