"""Whether a new model reads words or pieces of words, measured on its training texts.

Where words take many endings (Korean, Turkish, Finnish, Hungarian), a new text is full of new forms
of known words, which a tokenizer of words cannot read. Their share hardly depends on the number of
texts: it is counted between two halves of a sample, each of 250 to 5,000 words.

Of 10,000 words of English reviews, letters, questions and fortunes 8 to 13 % are such forms, of
French and German texts 6 to 13 %. Of Hungarian, Turkish, Czech, Polish and Russian texts it is
16 to 20 %, of Korean reviews 25 %. A new word without a known stem, such as a name, does not
count: its pieces would mean nothing either. Nor does a word with a digit, such as an article
number: each is new, and shares its beginning with all others.
"""

import logging
import math
import random
import unicodedata
from collections.abc import Sequence

from .tokenizer import Level, cut, untrained

logger = logging.getLogger(__name__)

MIN_NEW_FORMS = 0.14  # of the words, from which on a model reads pieces
MIN_WORDS = 500  # of a sample; fewer say nothing
MAX_WORDS = 10_000
MAX_LENGTH = 2_000  # characters of one text, so that the sample has words of many texts
STEM = 0.6  # of the letters of a word: two words with the same beginning are forms of one
MIN_STEM = 3  # letters


def choose_level(texts: Sequence[str]) -> Level:
    """Return "subword" where many words are new forms of known ones, else "word".

    The log names the choice, the share and its limit. The same texts give the same choice.
    """
    halves = _sample(texts)
    num_words = sum(map(len, halves))
    share = new_form_share(*halves)
    has_forms = num_words >= MIN_WORDS and share >= MIN_NEW_FORMS
    level: Level = "subword" if has_forms else "word"
    logger.info(
        f"level: {level} ({share:.1%} of {num_words:,} words are new forms of others; subword from "
        f"{MIN_NEW_FORMS:.0%} of {MIN_WORDS} words on)"
    )
    return level


def new_form_share(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of words that one half has in a form that the other half lacks.

    The other half has a word with the same beginning, of `STEM` of the letters.
    """
    num_new = 0
    for words, others in ((first, second), (second, first)):
        known = set(others)
        beginnings = {word[:size] for word in known for size in range(MIN_STEM, len(word) + 1)}
        for word in words:
            stem = word[: max(MIN_STEM, math.ceil(STEM * len(word)))]
            num_new += word not in known and stem in beginnings
    return num_new / max(len(first) + len(second), 1)


def _sample(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of two halves of a sample; no text is in both.

    Syllables of Korean are taken apart: endings begin within them.
    """
    halves: tuple[list[str], list[str]] = ([], [])
    cutter = untrained()
    for number in random.Random(0).sample(range(len(texts)), min(len(texts), MAX_WORDS)):
        shorter = min(halves, key=len)
        for word in cut(texts[number][:MAX_LENGTH], cutter):
            if word[0].isalpha() and not any(map(str.isdigit, word)):
                shorter.append(unicodedata.normalize("NFD", word))
        if sum(map(len, halves)) >= MAX_WORDS:
            break
    return halves
