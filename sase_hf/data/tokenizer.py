"""Tokenizers built from texts: stock fast tokenizers, which read any text."""

import json
import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from itertools import chain, islice, product
from typing import Any, Literal, get_args

import regex
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BatchEncoding, PreTrainedTokenizerBase, TokenizersBackend
from transformers.utils import logging

from ..models.checked_files import record_tokenizer
from ..utils.errors import refusal

Level = Literal["word", "subword", "character"]

NUM_WORDS = 30_000
NUM_PIECES = 8_000
# A word that is met once would be one piece, and the model would never see its parts: of 1,000
# Korean reviews it learnt six points less. So fewer texts have fewer and shorter pieces.
MIN_MERGED = 20

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PIECE_SIZE = 2**16  # characters of a text that are counted at a time
_SPACES = " \t\r\n"  # white space for every tokenizer

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
SPECIAL_TOKENS = [PAD_TOKEN, UNK_TOKEN]
EOS_TOKEN = "[EOS]"

# Scripts without spaces between words. Texts are cut into their characters where these are more
# than a hundredth of the letters in a sample of the texts; a stray phrase elsewhere stays one word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_MIN_UNSPACED = 0.01
_SAMPLE_SIZE = 1000
# The characters of a word: letters, the marks on them, digits. && is an intersection.
_OF_WORDS = r"\p{L}\p{M}\p{N}"
_OF_SPACED_WORDS = rf"{_OF_WORDS}&&[^{_UNSPACED}]"


class LenientTokenizer(TokenizersBackend):
    """A stock fast tokenizer that reads a lone surrogate as U+FFFD.

    JSON and file names can hold a surrogate, and the stock class fails on it with the whole batch.
    Where this package is not imported, the stock class loads in its place. Saved beside new weights
    of a model, it is the one that these weights load with from then on.

    A text that spells a named special token, such as the padding token, is cut like any other. A
    special token that a user adds, by `add_special_tokens` or `extra_special_tokens`, is read as
    one token, also by the stock class that loads it.
    """

    def _add_tokens(
        self, new_tokens: Sequence[str | AddedToken], special_tokens: bool = False
    ) -> int:
        """Add tokens; only named special ones are special to the backend, which then cuts them."""
        named = set(self.special_tokens_map.values())
        tokens: list[str | AddedToken] = []
        for new_token in new_tokens:
            is_named = str(new_token) in named
            if isinstance(new_token, str):
                token = AddedToken(new_token, normalized=not (special_tokens or is_named))
            else:
                token = copy(new_token)
            token.special = is_named
            tokens.append(token)
        added: int = super()._add_tokens(tokens)
        return added

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> tuple[str, ...]:
        """Save the tokenizer as transformers does, and name it in `SHA256SUMS` of new weights."""
        saved: tuple[str, ...] = super().save_pretrained(save_directory, *args, **kwargs)
        record_tokenizer(save_directory)
        return saved

    def _encode_plus(  # type: ignore[override]  # which names each option
        self, text: object, text_pair: object = None, **options: Any
    ) -> BatchEncoding:
        return super()._encode_plus(_repaired(text), _repaired(text_pair), **options)


def _repaired(text: object) -> Any:
    """Replace the lone surrogates in a text, or in lists of texts."""
    if isinstance(text, list | tuple):
        return type(text)(map(_repaired, text))
    if isinstance(text, str):
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int | None = None,
    lowercase: bool = True,
    min_frequency: int | None = None,
    *,
    level: Level = "word",
    extra_words: Iterable[str] = (),
) -> TokenizersBackend:
    """Build a tokenizer of the words, of their pieces or of the characters that some texts hold.

    A text is normalised (NFC, a curly apostrophe made straight, lower case if asked for) and cut
    at white space; each punctuation mark and symbol is then a token of its own. English
    contractions are cut as in the Penn Treebank, "don't" into "do" and "n't": GloVe's vectors were
    trained on such tokens, and every negated verb shares one "n't". Texts in scripts without
    spaces (Han, Kana, Thai, Lao, Khmer, Burmese) are cut into characters with their marks, even
    where spaces were put between their words.

    With `level="subword"` each word is then cut into pieces by byte-pair encoding (Sennrich et al.,
    2016): frequent words stay whole, a rare one becomes its stem and endings, and only a character
    that the texts lack is unknown. `word_ids()` of an encoding says which tokens form a word. With
    `level="character"` each character is a token, and so is the white space between two words.

    The padding token has id 0 and the unknown one id 1. The words follow by falling frequency, then
    by code points, whatever the order of the texts; of pieces the characters by code points, then
    the others as they were merged. A pair of texts has token types 0 and 1 and nothing between. A
    text that spells a special token is cut like any other text.

    Args:
        texts: The texts to count words in, such as `dataset["train"]["text"]` or, for pairs,
            `itertools.chain(train["premise"], train["hypothesis"])`. Read once and not kept.
        vocab_size: Max entries of the vocabulary, the two special tokens included; by default
            30,000, of pieces 8,000. Pieces that are single characters all stay.
        lowercase: Whether "The" and "the" are one word.
        min_frequency: How often a word must occur in the texts to be kept, by default once, or two
            pieces side by side to be merged, by default 20 times.
        level: Whether a token is a word, a piece of a word or a character.
        extra_words: Words to keep although the texts lack them, the important ones first, such as
            those of a vector file (`word_vectors.read_words`). They fill the room that the words of
            the texts leave. A word that this tokenizer would cut in two is passed over.

    Raises ValueError if `texts` is a single text or a mapping, a text is not a string or holds a
    lone surrogate, the level is another one, extra words are given for pieces, or no word is left.
    """
    if level not in get_args(Level):
        raise refusal(f"level is {level!r}", "it must be 'word', 'subword' or 'character'")
    if level == "subword" and any(True for _ in extra_words):
        raise refusal(
            "extra_words are given, but level is 'subword', which cuts words into pieces",
            "leave them out, or choose level='word'",
        )
    if vocab_size is None:
        vocab_size = NUM_PIECES if level == "subword" else NUM_WORDS
    if min_frequency is None:
        min_frequency = MIN_MERGED if level == "subword" else 1
    texts, of_words = _characters_of_words(texts)
    if level == "subword":
        tokenizer = Tokenizer(models.BPE(unk_token=UNK_TOKEN))
    else:
        tokenizer = Tokenizer(models.WordLevel({}, UNK_TOKEN))
    tokenizer.normalizer = _normalizer(lowercase, one_line=level == "character")
    if level == "character":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    else:
        apart = pre_tokenizers.Split(Regex(_apart(of_words)), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), apart])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0", pair="$A:0 $B:1", special_tokens=[]
    )
    _train(tokenizer, texts, vocab_size, min_frequency)
    vocabulary = _extended(tokenizer, extra_words, vocab_size)
    if len(vocabulary) == len(SPECIAL_TOKENS):
        raise refusal(
            f"no word occurs min_frequency={min_frequency} times in the texts, or "
            f"vocab_size={vocab_size} leaves no room for words",
            "give more texts, or change one of the two",
        )
    if level != "subword":
        tokenizer.model = models.WordLevel(vocabulary, unk_token=UNK_TOKEN)
    return _fast(tokenizer, ["input_ids", "token_type_ids", "attention_mask"])


def built_settings(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any] | None:
    """Return how `build_tokenizer` made a tokenizer; None if another one made or changed it.

    `lowercase` and `level` are its arguments; `unspaced` is the class of the characters that are
    cut apart, in JavaScript's spelling, or empty. Pieces of words have `merges`, two pieces with a
    space between, in the order in which they are merged.
    """
    if not (tokenizer.is_fast and tokenizer.split_special_tokens):
        return None
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    settings["truncation"] = None
    settings["padding"] = None
    levels: tuple[Level, ...] = get_args(Level)
    class_of_sample = {"a": "", "\u6211": _UNSPACED}  # a text, and what it makes be cut apart
    for lowercase, level, sample in product((True, False), levels, class_of_sample):
        built = build_tokenizer([sample], lowercase=lowercase, level=level)
        expected = json.loads(built.backend_tokenizer.to_str())
        expected["model"]["vocab"] = settings["model"].get("vocab")
        if level == "subword":
            expected["model"]["merges"] = settings["model"].get("merges")
        if settings == expected:
            unspaced = class_of_sample[sample].replace("p{", "p{Script=")
            found: dict[str, Any] = {"lowercase": lowercase, "level": level, "unspaced": unspaced}
            if level == "subword":
                found["merges"] = [" ".join(pair) for pair in settings["model"]["merges"]]
            return found
    return None


def build_translation_tokenizer(
    texts: Iterable[str],
    vocab_size: int = 30_000,
    lowercase: bool = False,
    min_frequency: int = 1,
    *,
    subwords: bool = False,
) -> TokenizersBackend:
    """Build one tokenizer for both languages of a translation model; decoding restores the text.

    A text is normalised (NFC, a curly apostrophe made straight) and cut into words, elisions such
    as "l'" and single punctuation marks; a mark in front of a piece stands for the space before it.
    Each text ends with `[EOS]`. The padding token has id 0, the unknown one 1 and `[EOS]` 2.
    `tokenizer(sources, text_target=targets)` prepares pairs.

    The texts are those of both languages. `min_frequency` also counts merged pairs of subwords;
    `subwords` cuts rare words into byte-pair-encoded parts instead of making them `[UNK]`. The
    other arguments and errors are those of `build_tokenizer`.
    """
    texts, of_words = _characters_of_words(texts)
    if subwords:
        tokenizer = Tokenizer(models.BPE(unk_token=UNK_TOKEN))
    else:
        tokenizer = Tokenizer(models.WordLevel({}, UNK_TOKEN))
    tokenizer.normalizer = _normalizer(lowercase, one_line=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(split=False),
            pre_tokenizers.Split(Regex(_piece(of_words)), "removed", invert=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace()
    _train(tokenizer, texts, vocab_size, min_frequency, EOS_TOKEN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS_TOKEN}", special_tokens=[(EOS_TOKEN, len(SPECIAL_TOKENS))]
    )
    return _fast(tokenizer, ["input_ids", "attention_mask"], eos_token=EOS_TOKEN)


def text_fault(value: object) -> str | None:
    """Return why a value cannot be tokenized, None if it can."""
    if not isinstance(value, str):
        return f"{reprlib.repr(value)} is of type {type(value).__name__}, not a string"
    try:
        value.encode()
    except UnicodeEncodeError:
        return (
            f"{reprlib.repr(value)} has a lone surrogate, which is not a character; repair it with "
            'text.encode("utf-8", "replace").decode()'
        )
    return None


def with_texts_apart(tokenizer: TokenizersBackend) -> TokenizersBackend:
    """Return a tokenizer that puts its special tokens around each text of a pair as around one.

    It is of the class of `build_tokenizer`: that of a model, such as BERT, makes its own pairs.
    """
    if not tokenizer.num_special_tokens_to_add():
        return tokenizer
    alone = tokenizer("a", return_special_tokens_mask=True)
    tokens = tokenizer.convert_ids_to_tokens(alone["input_ids"])
    start = alone["special_tokens_mask"].index(0)
    end = len(tokens) - alone["special_tokens_mask"][::-1].index(0)
    first, second = (
        [f"{token}:{side}" for token in (*tokens[:start], f"${name}", *tokens[end:])]
        for side, name in enumerate("AB")
    )
    marks = {*tokens[:start], *tokens[end:]}
    template = processors.TemplateProcessing(
        single=first,
        pair=first + second,
        special_tokens=[(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in marks],
    )
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    # Byte-level tokens may begin with the space before a word; others are not changed.
    backend.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return LenientTokenizer(
        tokenizer_object=backend,
        **tokenizer.special_tokens_map,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def _characters_of_words(texts: Iterable[str]) -> tuple[Iterable[str], str]:
    """Return all texts, and the class of the characters that form words in them.

    If the texts have a length, the sample is spread evenly over them; else it is the beginning.
    """
    refuse_no_texts(texts)
    rest = iter(texts)
    if rest is texts or not isinstance(texts, Sized):
        first = list(islice(rest, _SAMPLE_SIZE))
        texts = chain(first, rest)
    else:
        first = list(islice(rest, 0, None, len(texts) // _SAMPLE_SIZE + 1))
    sample = "".join(text for text in first if isinstance(text, str))
    unspaced = len(regex.findall(rf"[{_UNSPACED}]", sample))
    is_spaced = unspaced <= _MIN_UNSPACED * len(regex.findall(r"\p{L}", sample))
    return texts, _OF_WORDS if is_spaced else _OF_SPACED_WORDS


def refuse_no_texts(texts: object) -> None:
    """Raise ValueError for a single text, or a mapping, in the place of texts."""
    if isinstance(texts, str | bytes | Mapping):
        raise refusal(
            f"texts is a {type(texts).__name__}",
            "pass an iterable of strings, such as a list or a column of a dataset: "
            'dataset["train"]["text"]',
        )


def _apart(of_words: str) -> str:
    """Return the pattern of a token that is no word of these characters.

    The token is an English contraction as the Penn Treebank cuts it, or any other character, with
    its marks if of `_UNSPACED`. Nothing backtracks: time grows only with the length of a text.
    """
    contraction = rf"(?i:n't|'(?:s|m|d|ll|re|ve))(?![{of_words}])"
    return rf"{contraction}|{_unspaced(of_words)}[^{of_words}]"


def _piece(of_words: str) -> str:
    """Return the pattern of a piece of a text to translate, with a mark for the space before.

    The piece is a short elision ("l'"), the end of a contraction, a word, or a token of `_apart`.
    """
    return (
        rf"▁?[{of_words}]{{1,2}}'(?=\p{{L}})|'(?i:s|m|d|t|ll|re|ve)(?![{of_words}])"
        rf"|{_unspaced(of_words, '▁?')}▁?[{of_words}]+|▁?[^▁{of_words}]|▁"
    )


def _unspaced(of_words: str, before: str = "") -> str:
    """Return the alternative that is a character of `_UNSPACED`, if these are apart from words."""
    return "" if of_words == _OF_WORDS else rf"{before}[{_UNSPACED}]\p{{M}}*|"


def _normalizer(lowercase: bool, one_line: bool) -> normalizers.Normalizer:
    """Return the normalizer of texts; `one_line` makes every run of white space one space."""
    apostrophe = normalizers.Replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    steps = [normalizers.NFC(), apostrophe]
    if lowercase:
        steps.append(normalizers.Lowercase())
    of_letters = normalizers.Sequence(steps)
    if not one_line:
        return of_letters
    one_space = normalizers.Replace(Regex(r"\s+"), " ")
    return normalizers.Sequence([of_letters, one_space, normalizers.Strip()])


def _train(
    tokenizer: Tokenizer, texts: Iterable[str], vocab_size: int, min_frequency: int, *more: str
) -> None:
    """Learn the special tokens and the words."""
    is_bpe = isinstance(tokenizer.model, models.BPE)
    trainer_class = trainers.BpeTrainer if is_bpe else trainers.WordLevelTrainer
    trainer = trainer_class(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIAL_TOKENS, *more],
        show_progress=False,
    )
    tokenizer.train_from_iterator(checked_pieces(texts, "Counting words"), trainer)


def checked_pieces(texts: Iterable[str], purpose: str) -> Iterator[str]:
    """Yield texts, long ones in pieces, with a progress bar after a second.

    ValueError names a text that cannot be tokenized.
    """
    shown = logging.tqdm(texts, desc=purpose, unit=" texts", delay=1)
    for position, text in enumerate(shown):
        fault = text_fault(text)
        if fault is not None:
            raise ValueError(
                f"text {position} (counted from 0): {fault}. From a dataset, pass one column: "
                'dataset["text"]'
            )
        yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that hold its words, because a long one takes much memory."""
    start = 0
    while start < len(text):
        end = cut_place(text, start, _PIECE_SIZE)
        yield text[start:end]
        start = end


def cut_place(text: str, start: int, size: int) -> int:
    """Return where a piece from `start` of at most `size` characters ends.

    That is before the last white space in its second half or, if there is none, between any two
    characters.
    """
    end = start + size
    if end >= len(text):
        return len(text)
    middle = start + size // 2
    last_space = max(text.rfind(space, middle, end) for space in _SPACES)
    if last_space < 0:
        return end
    while last_space > middle and text[last_space - 1] in _SPACES:
        last_space -= 1
    return last_space


def _extended(tokenizer: Tokenizer, extra_words: Iterable[str], vocab_size: int) -> dict[str, int]:
    """Return the vocabulary with the extra words that fit into it and are single tokens."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    for word in extra_words:
        if len(vocabulary) >= vocab_size:
            break
        normalized = tokenizer.normalizer.normalize_str(word)
        pieces = tokenizer.pre_tokenizer.pre_tokenize_str(normalized)
        if len(pieces) == 1:
            vocabulary.setdefault(pieces[0][0], len(vocabulary))
    return vocabulary


def _fast(
    tokenizer: Tokenizer, model_input_names: list[str], **special_tokens: str
) -> LenientTokenizer:
    """Wrap a trained tokenizer, which `AutoTokenizer` loads from the `tokenizer.json` it saves."""
    return LenientTokenizer(
        tokenizer_object=tokenizer,
        pad_token=PAD_TOKEN,
        unk_token=UNK_TOKEN,
        **special_tokens,
        split_special_tokens=True,
        model_input_names=model_input_names,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
