"""scripts/lab/synthetic_corpus.py: the same rows everywhere, balanced."""

import gzip
import json
from collections import Counter

from synthetic_corpus import SIZES, corpus_files

from sase_hf.commands.quickstart import CORPUS


def test_corpus_files_are_those_of_the_package() -> None:
    """Numbers measured on two machines, or by two versions, can be compared."""
    for name, text in corpus_files():
        assert gzip.decompress((CORPUS / f"{name}.gz").read_bytes()) == text.encode()


def test_corpus_files_balance_labels_and_repeat_no_text() -> None:
    """The most frequent label scores one in five, and no row was trained on."""
    files = [[json.loads(row) for row in text.splitlines()] for _, text in corpus_files()]
    for rows in files:
        counts = Counter(row["label"] for row in rows)
        assert [*counts.values()] == [len(rows) // 5] * 5
    assert len({row["text"] for rows in files for row in rows}) == sum(SIZES)
