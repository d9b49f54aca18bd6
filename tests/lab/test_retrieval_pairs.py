"""The script that makes pairs of a sentence and its text."""

import random
from itertools import chain
from pathlib import Path

import pytest
from checkpoints import script_main
from retrieval_pairs import groups_of_subject
from rows import write_jsonl
from runs import read_lines


def test_pairs_are_a_sentence_beside_the_text_without_it(tmp_path: Path) -> None:
    long = "one two three four five six seven eight nine."
    texts = [f"A b. {long} C d! E f? G h.", "Too few. Sentences.", "No. Long. One. At. All."]
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in texts * 2])
    output = tmp_path / "pairs.jsonl"
    script_main("lab/retrieval_pairs")([str(rows), str(output), "--max_rows", "1"])
    assert read_lines(output) == [{"query": long, "document": "A b. C d! E f? G h."}]


def test_pairs_of_a_torn_file_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{")
    output = tmp_path / "pairs.jsonl"
    with pytest.raises(SystemExit, match=r"cannot read .*rows\.jsonl: "):
        script_main("lab/retrieval_pairs")([str(rows), str(output)])


def test_pairs_of_similar_texts_stand_together(tmp_path: Path) -> None:
    """Texts of two subjects alternate; each draw writes every text once, subject after subject."""
    rng = random.Random(0)
    words = {subject: [f"{subject}{i}" for i in range(400)] for subject in ("ship", "rose")}
    texts = [
        " ".join(f"{subject} {' '.join(rng.choices(words[subject], k=8))}." for _ in range(6))
        for _ in range(70)
        for subject in words
    ]
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in texts])
    output = tmp_path / "pairs.jsonl"
    flags = ["--draws", "2", "--similar_together"]
    script_main("lab/retrieval_pairs")([str(rows), str(output), *flags])
    pairs = read_lines(output)
    subjects = [pair["document"].split()[0] for pair in pairs]
    halves = [{*subjects[start : start + 70]} for start in range(0, 280, 70)]
    assert len(pairs) == 280
    assert all(len(half) == 1 for half in halves)
    for draw in (pairs[:140], pairs[140:]):
        drawn = sorted(sorted(f"{p['query']} {p['document']}".split()) for p in draw)
        assert drawn == sorted(sorted(text.split()) for text in texts)
    assert {p["query"] for p in pairs[:140]} != {p["query"] for p in pairs[140:]}


def test_groups_of_one_subject_are_cut_at_128_texts() -> None:
    texts = [f"ship{number % 7} sail{number % 7}" for number in range(1400)]
    groups = groups_of_subject(texts, seed=0)
    assert sorted(chain.from_iterable(groups)) == list(range(len(texts)))
    assert max(map(len, groups)) <= 128


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["Three. Sentences. Q r s t u v w x y."],
            r"rows\.jsonl gives a pair; a text needs 5 sent",
        ),
        (["A b. C d e f g h i j k. L! M? N."] * 3, "the 3 texts share no words that tell subjects"),
    ],
)
def test_pairs_that_cannot_be_made_are_refused(
    tmp_path: Path, texts: list[str], message: str
) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in texts])
    output = tmp_path / "pairs.jsonl"
    with pytest.raises(SystemExit, match=message):
        script_main("lab/retrieval_pairs")([str(rows), str(output), "--similar_together"])
    assert not output.exists()
