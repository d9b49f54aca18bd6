"""The words of many texts: whole words, counted by what the tokenizer makes of them.

A word is a whole word, as on all pages, whatever its tokens are; that of a model of characters is
what stands between white space and punctuation: a single letter says little. Two words are the same
if the tokenizer makes the same text of them, such as "The" and "the". In a pair, a word of the
first text is not the same as that word in the second one.

Shapes: B texts, T tokens, V different words, N words of all texts.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray
from torch import Tensor
from transformers import Pipeline
from transformers.utils import logging

from ..models.pipeline_self_attentive import words_of_tokens
from .attended_text import whole_words

LEAST_TOKENS = 64  # that a text counts for in `max_tokens`: a short one takes time, too
EXCERPT = 48  # characters before and after the word of an example
_CHARACTER = regex.compile(r"\X?")
_MARKS = regex.compile(r"\p{M}*")

Ids = NDArray[np.integer]
Key = tuple[int | None, str]

UNKNOWN: Key = (None, "")


class Example(NamedTuple):
    """A word in a text, between what stands before and after it there."""

    before: str
    word: str
    after: str


class WordCorpus:
    """The N words of some texts, of which V are different.

    The arguments are as in `read_learned_words`. These are kept:

    encoded: for each input the `input_ids` and `token_type_ids` of its real tokens, (T,) each.
    word_of_token: for each input which of the N words a token is in, (T,); -1 for none.
    words: which of the V words each of the N is, (N,).
    places: of each of the N its input, side, start and end in the text, (N, 4).
    keys: of each of the V what makes it one word: the text of a pair that it stands in, 0 or 1, or
        None if texts are single; and what the tokenizer makes of it. `UNKNOWN` is that of all words
        that the model does not know.
    spellings: of each of the V its most frequent spelling.
    """

    def __init__(
        self,
        reader: Pipeline,
        inputs: Sequence[object],
        max_tokens: int | None = None,
        seed: int = 0,
    ) -> None:
        self.is_pair = False
        self.texts: list[list[str]] = []
        self.encoded: list[dict[str, Tensor]] = []
        self.word_of_token: list[Ids] = []
        self._id_of_key: dict[Key, int] = {}
        self._spellings: list[Counter[str]] = []
        self._normalized = _normalizer_of(reader.tokenizer)
        self._unknown_token = _unknown_token_of(reader.tokenizer)
        words: list[int] = []
        places: list[tuple[int, int, int, int]] = []
        drawn = _drawn(reader, inputs, max_tokens, seed)
        for number, encoded in enumerate(drawn):
            self._add(number, encoded, words, places)
        self.words: Ids = np.array(words, dtype=np.int64)
        self.places: Ids = np.array(places, dtype=np.int64).reshape(-1, 4)
        self.spellings = [_most_frequent(counter) for counter in self._spellings]
        self.keys = list(self._id_of_key)
        self.unknown = self._id_of_key.get(UNKNOWN)

    def _add(
        self,
        number: int,
        encoded: dict[str, Any],
        words: list[int],
        places: list[tuple[int, int, int, int]],
    ) -> None:
        """Append the words of an encoded input."""
        is_real = encoded["attention_mask"][0].bool()
        ids = encoded["input_ids"][0][is_real]
        types = encoded["token_type_ids"][0][is_real]
        texts = encoded["texts"]
        self.is_pair = len(texts) == 2
        word_of_token = np.full(len(ids), -1, dtype=np.int64)
        for side, text in enumerate(texts):
            tokens = (types == side).nonzero().flatten().tolist()
            offsets = [encoded["offsets"][token] for token in tokens]
            word_ids = [encoded["word_ids"][token] for token in tokens]
            if _are_characters(text, offsets):
                word_ids = [0] * len(tokens)  # one word where letters meet
            word_ids = words_of_tokens(text, offsets, word_ids)
            tokens_of_words, spans = whole_words(text, offsets, word_ids)
            for tokens_of_word, (start, end) in zip(tokens_of_words, spans, strict=True):
                of_word = [tokens[token] for token in tokens_of_word]
                word_of_token[of_word] = len(words)
                is_unknown = (ids[of_word] == self._unknown_token).any().item()
                spelling = _with_marks(text, start, end)
                words.append(self._id_of(spelling, side, is_unknown))
                places.append((number, side, start, end))
        self.texts.append(texts)
        self.encoded.append({"input_ids": ids, "token_type_ids": types})
        self.word_of_token.append(word_of_token)

    def _id_of(self, spelling: str, side: int, is_unknown: bool) -> int:
        """Return which of the V words a spelling is; all unknown ones are one."""
        # White space may be normalised to nothing, which is the key of unknown words.
        key = (side if self.is_pair else None, self._normalized(spelling) or spelling)
        if is_unknown:
            key = UNKNOWN
        word = self._id_of_key.setdefault(key, len(self._spellings))
        if word == len(self._spellings):
            self._spellings.append(Counter())
        self._spellings[word][spelling] += 1
        return word

    def example(self, place: int) -> Example:
        """Return one of the N words in its text."""
        number, side, start, end = self.places[place].tolist()
        text = self.texts[number][side]
        before = text[max(start - EXCERPT, 0) : start]
        if start > EXCERPT:  # begin with a whole word
            _, space, rest = before.partition(" ")
            before = f"…{rest if space else before}"
        after = text[end : end + EXCERPT]
        if end + EXCERPT < len(text):
            rest, space, _ = after.rpartition(" ")
            after = f"{rest if space else after}…"
        return Example(before, text[start:end], after)


def _drawn(
    reader: Pipeline,
    inputs: Sequence[object],
    max_tokens: int | None,
    seed: int,
) -> list[dict[str, Any]]:
    """Return the inputs in their order, encoded; with `max_tokens` a random part of them.

    The first input that is drawn may have more tokens.
    """
    order = list(range(len(inputs)))
    if max_tokens is not None:
        random.Random(seed).shuffle(order)
    encoded = {}
    num_tokens = 0
    for place in logging.tqdm(order, desc="Finding words", delay=1):
        encoded[place] = reader.preprocess(inputs[place])
        num_tokens += max(len(encoded[place]["offsets"]), LEAST_TOKENS)
        if max_tokens is not None and num_tokens >= max_tokens:
            break
    return [encoded[place] for place in sorted(encoded)]


def _unknown_token_of(tokenizer: Any) -> int:
    """Return the id of the unknown token; -1, that of no token, if there is none."""
    unknown_token: int | None = tokenizer.unk_token_id
    return -1 if unknown_token is None else unknown_token


def _normalizer_of(tokenizer: Any) -> Callable[[str], str]:
    """Return a function from a word to what the tokenizer makes of it, such as its lower case."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None:
        return str
    normalize: Callable[[str], str] = normalizer.normalize_str
    return normalize


def _are_characters(text: str, offsets: Sequence[Sequence[int]]) -> bool:
    """Return whether each token of a text is a character, or what a reader sees as one."""
    return all(_CHARACTER.fullmatch(text, start, end) for start, end in offsets)


def _with_marks(text: str, start: int, end: int) -> str:
    """Return a word of a text with the accents that end it, which a tokenizer may leave out."""
    marks = _MARKS.match(text, end)
    assert marks is not None  # there may be none
    return text[start : marks.end()]


def _most_frequent(spellings: Counter[str]) -> str:
    """Return the most frequent spelling, of equally frequent ones the last by code points."""
    return max(spellings, key=lambda spelling: (spellings[spelling], spelling))
