"""When texts are cut into pieces of words: where known words take ever new endings."""

import logging
import random
from collections.abc import Callable

import pytest

from sase_hf.data import level
from sase_hf.data.level import choose_level, new_form_share

ENDINGS = ["", "ler", "de", "lerde", "im", "lerim", "den", "lerimden", "in", "lerinde", "le", "sin"]
Word = Callable[[random.Random], str]


def made_word(rng: random.Random, num_letters: int = 6) -> str:
    return "".join(rng.choices("abcdefghijklmnoprstuvyz", k=num_letters))


STEMS = [made_word(random.Random(seed)) for seed in range(3_000)]


def stem(rng: random.Random) -> str:
    """Return a stem; few are frequent, as in any language."""
    return STEMS[int(len(STEMS) ** rng.random()) - 1]


def with_ending(rng: random.Random) -> str:
    return stem(rng) + rng.choice(ENDINGS)


def or_name(rng: random.Random) -> str:
    return made_word(rng, 9) if rng.random() < 0.4 else stem(rng)


def texts_of(word: Word, count: int, length: int = 12) -> list[str]:
    rng = random.Random(count)
    return [" ".join(word(rng) for _ in range(length)) for _ in range(count)]


@pytest.mark.parametrize("count", [60, 1_000])
@pytest.mark.parametrize(
    ("word", "expected"), [(with_ending, "subword"), (stem, "word"), (or_name, "word")]
)
def test_choose_level_takes_pieces_where_stems_have_many_endings(
    word: Word, expected: str, count: int
) -> None:
    """Whatever the number of texts is; names are new words, but not new forms of known ones."""
    assert choose_level(texts_of(word, count)) == expected


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (texts_of(with_ending, 40), "of 480 words are new forms of others; subword from 14%"),
        (["", "12 34 !? sku12"] * 500, "level: word (0.0% of 0 words"),
        (["我喜欢这部电影" * 20] * 50, "level: word (0.0% of 7,000 words"),
        (texts_of(with_ending, 900), "% of 10,008 words are new forms of others; subword"),
    ],
    ids=["few", "none", "unspaced", "endings"],
)
def test_choose_level_says_what_it_measured(
    texts: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="sase_hf.data.level"):
        choose_level(texts)
    assert said in caplog.text


def test_choose_level_does_not_count_words_with_digits() -> None:
    """Article numbers are ever new, and begin alike."""
    texts = texts_of(stem, 1_000)
    numbered = [f"{text} sku{10_000 + number} part{number}" for number, text in enumerate(texts)]
    assert choose_level(numbered) == "word"


def test_choose_level_takes_syllables_of_korean_apart() -> None:
    """Its endings begin within a syllable: 가다 and 갑니다 share the first two letters."""
    rng = random.Random(0)
    stems = ["".join(rng.choices("가나다라마바사아자차카타파하", k=2)) for _ in range(150)]
    last_syllables = [chr(ord("가") + final) for final in range(28)]  # 가, 각, 갂, ...
    words = [rng.choice(stems) + rng.choice(last_syllables) for _ in range(6_000)]
    texts = [" ".join(words[start : start + 10]) for start in range(0, len(words), 10)]
    assert choose_level(texts) == "subword"


def test_choose_level_reads_a_part_of_the_texts() -> None:
    """Ten million words would take minutes; what is read is spread over all of them."""
    read = []

    class Texts(list[str]):
        def __getitem__(self, number: int) -> str:  # type: ignore[override]
            read.append(number)
            return f"{made_word(random.Random(number))} " * 50_000

    assert choose_level(Texts([""] * 10**6)) == "word"
    assert len(read) <= level.MAX_WORDS / (level.MAX_LENGTH / 7) + 1
    assert max(read) > 9 * 10**5


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("walk the dog", "walked the dogs", 4 / 6),
        ("walk walk", "walked walked", 1),
        ("walk", "walk", 0),
        ("walk", "wall", 1),  # the same three of four letters
        ("walking", "wall", 1 / 2),  # a form of "walking", which shares no five letters with it
        ("an", "ant", 0),  # a stem has three letters
        ("", "", 0),
    ],
)
def test_new_form_share_counts_new_words_with_a_known_beginning(
    first: str, second: str, expected: float
) -> None:
    assert new_form_share(first.split(), second.split()) == pytest.approx(expected)
    assert new_form_share(second.split(), first.split()) == pytest.approx(expected)
