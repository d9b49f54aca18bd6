"""Whether a new model reads words or pieces of words, measured on its training texts.

Where words take many endings (Korean, Turkish, Finnish, Hungarian), a new text is full of new forms
of known words, which a tokenizer of words cannot read. Their share hardly depends on the number of
texts: it is counted between two halves of a sample, each of 250 to 5,000 words.

Of 10,000 words of English reviews, letters, questions and fortunes 8 to 13 % are such forms, of
French and German texts 6 to 13 %. Of Hungarian, Turkish, Czech, Polish and Russian texts it is
16 to 20 %, of Korean reviews 25 %. A new word without a known stem, such as a name, does not
count: its pieces would mean nothing either.
"""

import logging
import math
import random
import unicodedata
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from .tokenizer import Level, build_tokenizer, cut_place

logger = logging.getLogger(__name__)

MIN_NEW_FORMS = 0.14  # of the words, from which on a model reads pieces
MIN_WORDS = 500  # of a sample; fewer say nothing
MAX_WORDS = 10_000
MAX_SIZE = 20 * MAX_WORDS  # characters of the sample, which hold so many words
MAX_LENGTH = 2_000  # characters of one text, so that the sample has words of many texts
STEM = 0.6  # of the letters of a word: two words with the same beginning are forms of one
MIN_STEM = 3  # letters


def choose_level(texts: Sequence[str]) -> Level:
    """Return "subword" where many words are new forms of known ones, else "word".

    The log names the choice, the share and its limit. The same texts give the same choice.
    """
    halves = _sample(texts)
    num_words = sum(map(len, halves))
    if num_words < MIN_WORDS:
        logger.info(f"level: word ({num_words:,} words are too few to measure their endings)")
        return "word"
    share = new_form_share(*halves)
    level: Level = "subword" if share >= MIN_NEW_FORMS else "word"
    logger.info(
        f"level: {level} ({share:.1%} of {num_words:,} words are new forms of other words; "
        f"subword from {MIN_NEW_FORMS:.0%} on)"
    )
    return level


def new_form_share(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of words that one half has in a form that the other half lacks.

    The other half has a word with the same beginning, of `STEM` of the letters.
    """
    num_new = _num_new_forms(first, second) + _num_new_forms(second, first)
    return num_new / max(len(first) + len(second), 1)


def _num_new_forms(words: Sequence[str], known_words: Iterable[str]) -> int:
    """Count the words that are not known, but whose stem is."""
    known = set(known_words)
    beginnings = {word[:size] for word in known for size in range(MIN_STEM, len(word) + 1)}
    num_new = 0
    for word in words:
        stem = word[: max(MIN_STEM, math.ceil(STEM * len(word)))]
        num_new += word not in known and stem in beginnings
    return num_new


def _sample(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of two halves of a sample; no text is in both."""
    beginnings: list[str] = []
    size = 0
    for number in random.Random(0).sample(range(len(texts)), min(len(texts), MAX_WORDS)):
        text = texts[number]
        beginnings.append(text[: cut_place(text, 0, MAX_LENGTH)])
        size += len(beginnings[-1])
        if size >= MAX_SIZE:
            break
    halves: tuple[list[str], list[str]] = ([], [])
    if not any(map(str.split, beginnings)):
        return halves
    cutter = build_tokenizer(beginnings).backend_tokenizer
    for text in beginnings:
        shorter = min(halves, key=len)
        shorter += _words(text, cutter)
        if sum(map(len, halves)) >= MAX_WORDS:
            break
    return halves


def _words(text: str, cutter: Tokenizer) -> list[str]:
    """Return the words of a text, without numbers and marks.

    Syllables of Korean are taken apart: endings begin within them.
    """
    pieces = cutter.pre_tokenizer.pre_tokenize_str(cutter.normalizer.normalize_str(text))
    return [unicodedata.normalize("NFD", word) for word, _ in pieces if word[0].isalpha()]
