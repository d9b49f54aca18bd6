"""The words of many texts: whole words, counted by what the tokenizer makes of them.

Tokens are one word where letters or digits meet, as in "won't", whatever the tokenizer cuts; where
a script has no spaces, each character that is a token is one. Two words are the same if the
tokenizer makes the same text of them, such as "The" and "the"; all that the model does not know are
one word. In a pair, a word of the first text is not the same as that word in the second.

Shapes: B texts, T tokens, V different words, N words of all texts.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import Pipeline
from transformers.utils import logging

from ..models.pipeline_self_attentive import with_whole_characters, words_of_tokens
from .attended_text import whole_words

EXCERPT = 48  # characters before and after the word of an example
SIDES = ("1st", "2nd")  # texts of a pair

Ids = NDArray[np.integer]


class WordCorpus:
    """The N words of some texts, of which V are different.

    The arguments are as in `read_learned_words`. These are kept:

    texts: the text of each input, or its two texts.
    encoded: for each input what the model reads of its real tokens, (T,) each.
    word_of_token: for each input which of the N words each token is in, (T,); -1 for none, as
        for white space.
    words: which of the V words each of the N is, (N,).
    places: of each of the N its input, its side of a pair, and its start and end in the text.
    names: of each of the V what the tokenizer makes of it, in a pair with the text it stands in.
    counts: how often each of the V occurs, (V,).
    """

    def __init__(
        self, reader: Pipeline, inputs: Sequence[object], max_tokens: float = math.inf
    ) -> None:
        self.texts: list[list[str]] = []
        self.encoded: list[dict[str, Tensor]] = []
        self.word_of_token: list[Tensor] = []
        self.places: list[tuple[int, int, int, int]] = []
        self._tokenizer: Any = reader.tokenizer
        names: list[str] = []
        num_tokens = 0
        for input_ in logging.tqdm(inputs, desc="Finding words", delay=1):
            if num_tokens >= max_tokens:
                break
            encoded = reader.preprocess(input_)
            num_tokens += len(encoded["offsets"])
            self._add(encoded, names)
        ids: dict[str, int] = {}
        words = [ids.setdefault(name, len(ids)) for name in names]
        self.words: Ids = np.array(words, dtype=np.int64)
        self.names = list(ids)
        self.counts: Ids = np.bincount(self.words, minlength=len(ids))

    def _add(self, encoded: dict[str, Any], names: list[str]) -> None:
        """Append the words of an encoded input."""
        is_real = encoded["attention_mask"][0].bool()
        ids = encoded["input_ids"][0][is_real]
        types = encoded["token_type_ids"][0][is_real]
        texts = encoded["texts"]
        word_of_token = torch.full_like(ids, -1)
        for side, text in enumerate(texts):
            of_pair = f" ({SIDES[side]})" if len(texts) == 2 else ""
            tokens = (types == side).nonzero().flatten()
            offsets = with_whole_characters(text, [encoded["offsets"][token] for token in tokens])
            # Whatever words the tokenizer has, tokens whose letters meet are one.
            word_ids = words_of_tokens(text, offsets, [0] * len(offsets))
            found = zip(*whole_words(text, offsets, word_ids), strict=True)
            for tokens_of_word, (start, end) in found:
                name = self._normalized(text[start:end])
                if not name.strip():
                    continue
                of_word = tokens[tokens_of_word]
                if self._tokenizer.unk_token_id in ids[of_word].tolist():
                    name = self._tokenizer.unk_token
                word_of_token[of_word] = len(names)
                names.append(name + of_pair)
                self.places.append((len(self.texts), side, start, end))
        self.texts.append(texts)
        mask = torch.ones_like(ids)
        self.encoded.append({"input_ids": ids, "token_type_ids": types, "attention_mask": mask})
        self.word_of_token.append(word_of_token)

    def _normalized(self, spelling: str) -> str:
        """Return what the tokenizer makes of a word, such as its lower case."""
        normalizer = self._tokenizer.backend_tokenizer.normalizer
        return spelling if normalizer is None else str(normalizer.normalize_str(spelling))

    def example(self, word: int) -> tuple[str, str, str]:
        """Return one of the N words between what stands before and after it in its text."""
        number, side, start, end = self.places[word]
        text = self.texts[number][side]
        before = text[max(start - EXCERPT, 0) : start]
        after = text[end : end + EXCERPT]
        if len(before) < start:
            before = f"…{before}"
        if end + len(after) < len(text):
            after = f"{after}…"
        return before, text[start:end], after
