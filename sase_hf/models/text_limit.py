"""The beginning of a text that a limit of tokens lets a model read, found without reading it all.

A tokenizer makes every token of a text before it cuts, which takes some 150 bytes of memory for
each byte of the text. Of a text whose tokens are so long that no beginning of `MOST` characters has
enough of them, such as one endless word, only this beginning is read. This file imports the
standard library only, so that it also travels beside an exported model.
"""

import re
from collections.abc import Callable, MutableMapping, Sequence
from copy import deepcopy
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

CHARACTERS_PER_TOKEN = 16  # of the first beginning that is tried; English has some five
SHORTEST = 1_024  # characters of that beginning
GROWTH = 8  # the next beginning is so many times as long
MOST = 2**20  # characters that are looked through for the tokens
MOST_PER_TOKEN = 64  # the same, where the limit has many tokens
PIECE_SIZE = 2**16  # characters that are counted at a time
SPACES = " \t\r\n"  # white space for every tokenizer

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Tokens = Sequence[tuple[int, tuple[int, int]]]  # each with its offsets: start and end in the text
Encode = Callable[[str], Tokens]

# The copy of each tokenizer that never cuts, with the settings that the tokenizer had then.
_UNCUT: MutableMapping["PreTrainedTokenizerBase", tuple[object, "PreTrainedTokenizerBase"]]
_UNCUT = WeakKeyDictionary()


def needed_texts(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], max_length: int | None = None
) -> tuple[str, ...]:
    """Return the beginnings of one text, or of the two texts of a pair, that must be tokenized.

    Cut after `max_length` tokens, they give the tokens and the offsets of the whole texts, whatever
    the strategy of the cut. A text is returned whole if the tokenizer has no limit or cuts the left
    side.

    There are two exceptions. Words or white space of thousands of characters may fill the longest
    beginning, of `MOST` characters or `MOST_PER_TOKEN` for each token of the limit: what follows is
    not read, though the limit is not reached. Of an odd number of tokens, the longer text of a pair
    keeps one more: which one that is says `count_tokens`, which may be off by a few tokens.

    Args:
        tokenizer: A fast tokenizer of transformers.
        texts: One text or two. A lone surrogate counts as U+FFFD.
        max_length: Tokens of all texts together, special tokens included; by default the limit of
            the tokenizer.
    """
    limit = tokenizer.model_max_length if max_length is None else max_length
    if tokenizer.truncation_side != "right":
        return tuple(texts)

    num_special = tokenizer.num_special_tokens_to_add(pair=True)
    return needed_parts(partial(encode_alone, tokenizer), texts, limit, num_special)


def needed_parts(
    encode: Encode, texts: Sequence[str], limit: int, num_special: int
) -> tuple[str, ...]:
    """Do what `needed_texts` does, with a tokenizer of any library.

    Args:
        encode: Returns the tokens of a text, each with its offsets, without special tokens.
        texts: One text or two.
        limit: Tokens of all texts together, special tokens included.
        num_special: How many special tokens a pair gets.
    """
    whole = tuple(texts)
    if all(is_short(text, limit) for text in texts):
        return whole
    parts = [needed_part(encode, text, limit) for text in texts]
    are_cut = [part != text for part, text in zip(parts, texts, strict=True)]
    if len(texts) == 1 or not any(are_cut) or (limit - num_special) % 2 == 0:
        return tuple(parts)
    # Of an odd number of tokens the text with more tokens keeps one more: it must stay that text.
    longer = are_cut.index(True)
    if all(are_cut):
        counts = [count_tokens(encode, text) for text in texts]
        longer = 0 if counts[0] > counts[1] else 1  # as tokenizers decides for equal ones
    num_others = len(encode(parts[1 - longer]))
    parts[longer] = needed_part(encode, texts[longer], max(limit, num_others + 1))
    return tuple(parts)


def encode_within_limit(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], **options: Any
) -> tuple["BatchEncoding", list[int]]:
    """Return `tokenizer(*texts, **options)`, and how many tokens were cut off at the end of each.

    Counting takes as long as tokenizing the whole texts, but little memory. Several threads can
    call this at once with the same tokenizer, if those that cut ask for the same `max_length`.

    Args:
        tokenizer: A fast tokenizer of transformers.
        texts: One text or the two of a pair, without lone surrogates.
        options: Those of the tokenizer; `truncation` cuts, by default at its own limit.

    ValueError is raised for a `max_length` that is not an integer from 1.
    """
    limit = options.get("max_length")
    if limit is None:
        limit = tokenizer.model_max_length
    elif not isinstance(limit, Integral) or limit < 1:
        raise ValueError(f"max_length is {limit!r}; it must be an integer from 1")
    num_cut = [0] * len(texts)
    if not options.get("truncation"):
        return _uncut(tokenizer)(*texts, **options), num_cut
    parts = needed_texts(tokenizer, texts, int(limit))
    encoded = tokenizer(*parts, **options)
    side_of_token = encoded.sequence_ids(0)  # None for special tokens and padding
    num_special = tokenizer.num_special_tokens_to_add(pair=len(texts) == 2)
    num_kept = [side_of_token.count(side) for side in range(len(texts))]
    if sum(num_kept) + num_special < limit and parts == tuple(texts):
        return encoded, num_cut
    encode = partial(encode_alone, tokenizer)
    for side, text in enumerate(texts):
        num_cut[side] = max(count_tokens(encode, text) - num_kept[side], 0)
    return encoded, num_cut


def reads_apart(model: Any, tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether a model reads both texts of a pair as `encode_apart` gives them.

    A ranker is trained so, as it embeds each document alone: of the special tokens that a tokenizer
    puts around a pair, some would be missing around a document.

    Args:
        model: A model of any class, or a class.
        tokenizer: That of the model.
    """
    return getattr(model, "ranks", False) and tokenizer.num_special_tokens_to_add() > 0


def encode_apart(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], **options: Any
) -> tuple["BatchEncoding", list[int]]:
    """Do what `encode_within_limit` does for a pair whose texts are each read as if alone.

    The tokens of the second follow those of the first. The token types, 0 and 1, tell them apart.

    Args:
        tokenizer: A fast tokenizer of transformers.
        texts: The two texts of a pair, without lone surrogates.
        options: Those of the tokenizer; a limit is that of each text.
    """
    tensor_type = options.pop("return_tensors", None)
    tokens: dict[str, list[Any]] = {"token_type_ids": []}
    encodings: list[Any] = []
    num_cut = []
    for side, text in enumerate(texts):
        encoded, [count] = encode_within_limit(tokenizer, [text], **options)
        num_cut.append(count)
        encodings += encoded.encodings or ()
        encodings[-1].set_sequence_id(side)
        for name in encoded.keys() - {"token_type_ids"}:
            tokens.setdefault(name, []).extend(encoded[name])
        tokens["token_type_ids"] += [side] * len(encoded["input_ids"])
    joined = type(encodings[0]).merge(encodings, growing_offsets=False)
    batch_encoding = type(encoded)
    is_batch = tensor_type is not None
    return batch_encoding(tokens, joined, tensor_type, prepend_batch_axis=is_batch), num_cut


def encode_for(
    model: Any, tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], **options: Any
) -> tuple["BatchEncoding", list[int]]:
    """Encode one text or the two of a pair as a model reads them, by one of the functions above."""
    is_apart = len(texts) == 2 and reads_apart(model, tokenizer)
    encode = encode_apart if is_apart else encode_within_limit
    return encode(tokenizer, texts, **options)


def encode_alone(tokenizer: "PreTrainedTokenizerBase", text: str) -> Tokens:
    """Return the tokens of a text with their offsets, without special tokens and without a cut."""
    readable = _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    encoded = _uncut(tokenizer)(
        readable,
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,  # no warning of indexing errors: the model does not read these tokens
    )
    return list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))


def _uncut(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """Return a copy of a tokenizer that is never asked to cut.

    The cut is a state of the tokenizer. A call that changes it changes what a call in another
    thread returns.
    """
    backend = tokenizer.backend_tokenizer
    parts = (backend.normalizer, backend.pre_tokenizer, backend.post_processor)
    settings = (
        len(tokenizer),
        tokenizer.split_special_tokens,
        tokenizer.padding_side,
        *map(repr, parts),
    )
    copied_settings, copied = _UNCUT.get(tokenizer, (None, tokenizer))
    if copied_settings != settings:
        copied = deepcopy(tokenizer)
        _UNCUT[tokenizer] = settings, copied
    return copied


def is_short(text: str, max_tokens: int) -> bool:
    """Return whether a text is so short that looking for a shorter part is not worth it."""
    return len(text) <= 2 * max(CHARACTERS_PER_TOKEN * max_tokens, SHORTEST)


def needed_part(encode: Encode, text: str, max_tokens: int) -> str:
    """Return a beginning of a text that has the same first `max_tokens` tokens as the whole text.

    Two beginnings, one twice as long as the other, are encoded. What follows a beginning can change
    its last tokens only: if the first tokens lie in its first half and are equal in both, they are
    those of the whole text. `MOST` characters are returned if they do not have enough tokens.

    Args:
        encode: Returns the tokens of a text, each with its offsets, without special tokens.
        text: Any text; its words may be of any length.
        max_tokens: How many tokens are needed.
    """
    size = max(CHARACTERS_PER_TOKEN * max_tokens, SHORTEST)
    most = max(MOST, MOST_PER_TOKEN * max_tokens)
    while 2 * size < min(len(text), most):
        part = text[: cut_place(text, 0, size)]
        tokens = encode(part)[:max_tokens]
        if len(tokens) == max_tokens and _end_of(tokens) <= len(part) // 2:
            longer = text[: cut_place(text, 0, 2 * size)]
            if encode(longer)[:max_tokens] == tokens:
                return part
        size *= GROWTH
    return text[: cut_place(text, 0, most)]


def _end_of(tokens: Tokens) -> int:
    """Return where the last of some tokens ends in the text."""
    return max((end for _, (_, end) in tokens), default=0)


def count_tokens(encode: Encode, text: str) -> int:
    """Return how many tokens a text has, with the memory that `PIECE_SIZE` characters take.

    The count of a text longer than that may be off by one token for each piece.
    """
    count = start = 0
    while start < len(text):
        end = cut_place(text, start, PIECE_SIZE)
        count += len(encode(text[start:end]))
        start = end
    return count


def cut_place(text: str, start: int, size: int) -> int:
    """Return where a piece from `start` of at most `size` characters ends.

    That is before the last white space in its second half or, if there is none, between any two
    characters.
    """
    end = start + size
    if end >= len(text):
        return len(text)
    middle = start + size // 2
    last_space = max(text.rfind(space, middle, end) for space in SPACES)
    if last_space < 0:
        return end
    while last_space > middle and text[last_space - 1] in SPACES:
        last_space -= 1
    return last_space
