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
from synthetic.draw import Draw
from synthetic_corpus import main

SIZES = {"train": 300, "validation": 60, "test": 60}
# A change of the grammar or of the drawing changes it, and with it every number that was measured.
DIGEST_OF_SEED_0 = "406b20a5247431e887e1d0d59af870cd7c246bb61a71295e24f9bd5cdc12c552"

Row = dict[str, str]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus that the tests only read."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), 0, SIZES, SIZES)


def rows_of(corpus: Path, name: str) -> dict[str, list[Row]]:
    """Return the rows of each split."""
    lines = {split: (corpus / f"{name}.{split}.jsonl").read_text("utf-8") for split in SIZES}
    return {
        split: [json.loads(line) for line in text.splitlines()] for split, text in lines.items()
    }


def words_of(*texts: str) -> list[str]:
    """Return the words and marks of the texts, sorted: what a bag of words keeps of them."""
    return sorted(re.findall(r"\w+|[^\w\s]", " ".join(texts).lower()))


def digest(folder: Path) -> str:
    """Return one digest of the names and the bytes of all files."""
    sums = [path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir())]
    return hashlib.sha256(b"".join(sums)).hexdigest()


def test_corpus_of_a_seed_has_the_same_bytes_everywhere(corpus: Path) -> None:
    """Numbers measured on two machines can be compared."""
    assert digest(corpus) == DIGEST_OF_SEED_0


def test_corpus_of_another_seed_has_other_texts(corpus: Path, tmp_path: Path) -> None:
    """Otherwise the seed would promise a variation that it does not make."""
    other = rows_of(write_corpus(tmp_path, 1, SIZES, SIZES), "reviews")["train"]
    mine = rows_of(corpus, "reviews")["train"]
    assert len({row["text"] for row in mine} & {row["text"] for row in other}) < len(mine) / 10


def test_corpus_says_that_no_person_wrote_it(corpus: Path) -> None:
    """Nobody must take it for people's opinions, also when a file is passed on alone."""
    for name in ("reviews", "pairs"):
        for rows in rows_of(corpus, name).values():
            assert {row["source"] for row in rows} == {"synthetic"}
    assert "No person wrote these texts" in (corpus / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("reviews", ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]),
        ("pairs", ["entailment", "neutral", "contradiction"]),
    ],
)
def test_corpus_labels_are_balanced_in_every_split(
    corpus: Path, name: str, labels: list[str]
) -> None:
    """So that the most frequent label scores one in five, or in three, and no more."""
    for split, rows in rows_of(corpus, name).items():
        assert len(rows) == SIZES[split]
        assert Counter(row["label"] for row in rows) == dict.fromkeys(
            labels, len(rows) // len(labels)
        )


@pytest.mark.parametrize(("name", "column"), [("reviews", "text"), ("pairs", "premise")])
def test_corpus_has_no_text_twice(corpus: Path, name: str, column: str) -> None:
    """A test row that was trained on measures memory."""
    texts = [row[column] for rows in rows_of(corpus, name).values() for row in rows]
    assert len(texts) == len(set(texts)) == sum(SIZES.values())


def test_corpus_texts_are_sentences(corpus: Path) -> None:
    """A capital, a full stop, four to forty words and marks, and no symbol left unfilled."""
    for name in ("reviews", "pairs"):
        for row in rows_of(corpus, name)["train"]:
            for column in {"text", "premise", "hypothesis"} & row.keys():
                assert re.fullmatch(r"[A-Z][^{}|]*\.", row[column])
                assert 4 <= len(words_of(row[column])) <= 40


def test_review_grammar_has_every_phenomenon_for_every_label() -> None:
    for stars in reviews.STARS:
        draw = Draw(str(stars))
        met = {reviews.draw_review(draw, stars)["phenomenon"] for _ in range(100)}
        assert met == set(reviews.PHENOMENA)


def test_review_grammar_mirrors_the_happy_half() -> None:
    """Only praise and blame change places, and no template can stand for two numbers of stars."""
    assert reviews.mirrored("{we} {loved} the {part}") == "{we} {hated} the {part}"
    for stars in (5, 4):
        for template in itertools.chain(*reviews.TEMPLATES[stars].values()):
            assert reviews.mirrored(template) != template
            assert reviews.mirrored(reviews.mirrored(template)) == template


def test_pair_grammar_has_every_label_for_every_phenomenon() -> None:
    for rules in pairs.RULES.values():
        relations = {relation for _, relation, _ in rules}
        labels = {label for relation, label in pairs.CASES if relation in relations}
        assert labels == set(pairs.LABELS)


def test_pair_grammar_uses_both_statements_of_an_entailment_under_every_relation() -> None:
    """Otherwise a word of one sentence would betray the label."""
    for label in pairs.LABELS:
        names = " ".join(pairs.CASES[">", label]).replace("not-", "").split()
        assert names.count("P") == names.count("H")


def test_pair_statement_has_an_affirmed_and_a_negated_form() -> None:
    scene = {"a": "the cook", "group": "guests", "v": pairs.Verb("sing", "sang")}
    for template, forms in (
        ("{a} {v}", ("the cook sang", "the cook did not sing")),
        (
            "[some|none] of the {group} {v_past}",
            ("some of the guests sang", "none of the guests sang"),
        ),
    ):
        assert tuple(pairs.statement(template, scene, form) for form in (True, False)) == forms


def test_corpus_larger_than_the_grammar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a larger size than the grammar can give would run for ever or repeat rows."""
    one = {"text": "The only one.", "phenomenon": "degree"}
    monkeypatch.setattr(synthetic, "draw_review", lambda draw, stars: one)
    with pytest.raises(ValueError, match=r"no new text after 1 of 420 rows.*ask for fewer rows"):
        write_corpus(tmp_path, 0, SIZES, SIZES)


def test_synthetic_corpus_script_writes_the_folder(tmp_path: Path) -> None:
    main([str(tmp_path / "new" / "corpus"), "--seed", "0"])
    names = {path.name for path in (tmp_path / "new" / "corpus").iterdir()}
    splits = ("train", "validation", "test")
    files = {f"{name}.{split}.jsonl" for name in ("reviews", "pairs") for split in splits}
    assert names == {"README.md", *files}
