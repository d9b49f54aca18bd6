"""The synthetic corpus: reproducible, balanced, honest about itself, no bag of words."""

import hashlib
import itertools
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import synthetic
from synthetic import pairs, reviews, write_corpus
from synthetic.draw import Draw
from synthetic_corpus import main

SIZES = {"train": 300, "validation": 60, "test": 60}
# A change of the grammar or of the drawing changes it, and with it every number that was measured.
DIGEST_OF_SEED_0 = "c86fc08c974a9a9ace6755467bdd72f650a9d3e59ecab0c817d44681fdc28fb8"

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


def test_a_seed_gives_the_same_bytes_everywhere(corpus: Path) -> None:
    """Numbers measured on two machines can be compared."""
    assert digest(corpus) == DIGEST_OF_SEED_0


def test_another_seed_gives_other_texts(corpus: Path, tmp_path: Path) -> None:
    """Otherwise the seed would promise a variation that it does not make."""
    other = rows_of(write_corpus(tmp_path, 1, SIZES, SIZES), "reviews")["train"]
    mine = rows_of(corpus, "reviews")["train"]
    assert len({row["text"] for row in mine} & {row["text"] for row in other}) < len(mine) / 10


def test_every_row_and_the_folder_say_that_no_person_wrote_it(corpus: Path) -> None:
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
def test_labels_are_balanced_in_every_split(corpus: Path, name: str, labels: list[str]) -> None:
    """So that the most frequent label scores one in five, or in three, and no more."""
    for split, rows in rows_of(corpus, name).items():
        assert len(rows) == SIZES[split]
        assert Counter(row["label"] for row in rows) == dict.fromkeys(
            labels, len(rows) // len(labels)
        )


@pytest.mark.parametrize(("name", "column"), [("reviews", "text"), ("pairs", "premise")])
def test_no_text_occurs_twice(corpus: Path, name: str, column: str) -> None:
    """A test row that was trained on measures memory."""
    texts = [row[column] for rows in rows_of(corpus, name).values() for row in rows]
    assert len(texts) == len(set(texts)) == sum(SIZES.values())


def test_texts_read_as_sentences(corpus: Path) -> None:
    """A capital, a full stop, four to forty words and marks, and no symbol left unfilled."""
    for name in ("reviews", "pairs"):
        for row in rows_of(corpus, name)["train"]:
            for column in {"text", "premise", "hypothesis"} & row.keys():
                assert re.fullmatch(r"[A-Z][^{}|]*\.", row[column])
                assert 4 <= len(words_of(row[column])) <= 40


def test_every_phenomenon_comes_with_every_label() -> None:
    """A phenomenon of one label alone would give that label away."""
    for stars in reviews.STARS:
        draw = Draw(str(stars))
        met = {reviews.draw_review(draw, stars)["phenomenon"] for _ in range(100)}
        assert met == set(reviews.TEMPLATES[5])
    assert all(set(by_label) == set(pairs.LABELS) for by_label in pairs.TEMPLATES.values())


def test_the_unhappy_half_mirrors_the_happy_one() -> None:
    """Only praise and blame change places, and no template can stand for two numbers of stars."""
    assert reviews.mirrored("{we} {loved} the {part}") == "{we} {hated} the {part}"
    for stars in (5, 4):
        for template in itertools.chain(*reviews.TEMPLATES[stars].values()):
            assert reviews.mirrored(template) != template
            assert reviews.mirrored(reviews.mirrored(template)) == template


@pytest.mark.parametrize("phenomenon", pairs.TEMPLATES)
def test_the_same_words_stand_in_more_than_one_relation(phenomenon: str) -> None:
    """Who did it, what is added and what is denied where: order decides, words do not."""
    relations = defaultdict(set)
    for label, templates in pairs.TEMPLATES[phenomenon].items():
        for premise, hypothesis in templates:
            text = f"{premise} {hypothesis}"
            renamed = re.sub(r"\{([ab])\}", lambda slot: {"a": "{b}", "b": "{a}"}[slot[1]], text)
            bags = sorted(sorted(names.split()) for names in (text, renamed))
            relations[str(bags[0])].add(label)
    assert max(map(len, relations.values())) > 1


def test_what_is_said_of_a_premise_depends_on_the_hypothesis() -> None:
    """Each side alone occurs with several relations, or a model need not compare the two."""
    for side in (0, 1):
        relations = defaultdict(set)
        for by_label in pairs.TEMPLATES.values():
            for label, templates in by_label.items():
                for template in templates:
                    relations[template[side]].add(label)
        shared = [labels for labels in relations.values() if len(labels) > 1]
        assert len(shared) > len(relations) / 3


def test_a_used_up_grammar_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a larger size than the grammar can give would run for ever or repeat rows."""
    one = {"text": "The only one.", "phenomenon": "degree"}
    monkeypatch.setattr(synthetic, "draw_review", lambda draw, stars: one)
    with pytest.raises(ValueError, match=r"no new text after 1 of 420 rows.*ask for fewer rows"):
        write_corpus(tmp_path, 0, SIZES, SIZES)


def test_the_command_writes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training starts from its files."""
    for sizes in ("REVIEW_SIZES", "PAIR_SIZES"):
        for split, size in SIZES.items():
            monkeypatch.setitem(getattr(synthetic, sizes), split, size)
    main([str(tmp_path / "new" / "corpus"), "--seed", "0"])
    assert digest(tmp_path / "new" / "corpus") == DIGEST_OF_SEED_0
