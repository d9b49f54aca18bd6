"""Tokenizers built from texts: stock fast tokenizers, which read any text."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Literal, get_args

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerBase, TokenizersBackend
from transformers.utils import logging

from ..models.lenient_tokenizer import (
    EOS_TOKEN,
    PAD_TOKEN,
    SPECIAL_TOKENS,
    UNK_TOKEN,
    LenientTokenizer,
)
from ..utils.errors import refusal
from ..utils.text import UNSPACED, text_fault

Level = Literal["word", "subword", "character"]

NUM_WORDS = 30_000
NUM_PIECES = 8_000
# A word that is met once would be one piece, and the model would never see its parts: of 1,000
# Korean reviews it learnt six points less. So fewer texts have fewer and shorter pieces.
MIN_MERGED = 20

# The class of the characters of a word: letters, the marks on them, digits. && is an intersection.
_OF_WORDS = rf"\p{{L}}\p{{M}}\p{{N}}&&[^{UNSPACED}]"
# A token that is no word: an English contraction as the Penn Treebank cuts it, or any other
# character, with its marks if of `UNSPACED`. Nothing backtracks: time grows only with the length.
_APART = rf"(?i:n't|'(?:s|m|d|ll|re|ve))(?![{_OF_WORDS}])|[{UNSPACED}]\p{{M}}*|[^{_OF_WORDS}]"
# A piece of a text to translate, with a mark for the space before: a short elision ("l'"), the end
# of a contraction, a word, or a token that is no word.
_PIECE = (
    rf"▁?[{_OF_WORDS}]{{1,2}}'(?=\p{{L}})|'(?i:s|m|d|t|ll|re|ve)(?![{_OF_WORDS}])"
    rf"|▁?[{UNSPACED}]\p{{M}}*|▁?[{_OF_WORDS}]+|▁?[^▁{_OF_WORDS}]|▁"
)


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
    are_pieces = level == "subword"
    if are_pieces and extra_words:
        raise refusal(
            "extra_words are given, but level is 'subword', which cuts words into pieces",
            "leave them out, or choose level='word'",
        )
    if vocab_size is None:
        vocab_size = NUM_PIECES if are_pieces else NUM_WORDS
    if min_frequency is None:
        min_frequency = MIN_MERGED if are_pieces else 1
    tokenizer = untrained(level, lowercase)
    _train(tokenizer, texts, vocab_size, min_frequency)
    vocabulary = _extended(tokenizer, extra_words, vocab_size)
    if len(vocabulary) == len(SPECIAL_TOKENS):
        raise refusal(
            f"no word occurs min_frequency={min_frequency} times in the texts, or "
            f"vocab_size={vocab_size} leaves no room for words",
            "give more texts, or change one of the two",
        )
    if not are_pieces:
        tokenizer.model = models.WordLevel(vocabulary, unk_token=UNK_TOKEN)
    return _fast(tokenizer, ["input_ids", "token_type_ids", "attention_mask"])


def untrained(level: Level = "word", lowercase: bool = True) -> Tokenizer:
    """Return a tokenizer that spells and cuts texts as `build_tokenizer` says, without words."""
    tokenizer = _without_words(level)
    tokenizer.normalizer = _normalizer(lowercase, one_line=level == "character")
    if level == "character":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    else:
        apart = pre_tokenizers.Split(Regex(_APART), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), apart])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0", pair="$A:0 $B:1", special_tokens=[]
    )
    return tokenizer


def cut(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return the words of a text as a tokenizer spells them, whether it knows them or not."""
    normalized = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalized)]


def built_settings(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any] | None:
    """Return how `build_tokenizer` made a tokenizer; None if another one made or changed it.

    `lowercase` and `level` are its arguments; `unspaced` is the class of the characters that are
    cut apart, in JavaScript's spelling. Pieces of words have `merges`, two pieces with a space
    between, in the order in which they are merged.
    """
    if not (tokenizer.is_fast and tokenizer.split_special_tokens):
        return None
    rules, merges = _rules_and_merges(tokenizer)
    unspaced = UNSPACED.replace("p{", "p{Script=")
    for lowercase, level in product((True, False), get_args(Level)):
        built = build_tokenizer(["a"], lowercase=lowercase, level=level)
        if rules == _rules_and_merges(built)[0]:
            found = {"lowercase": lowercase, "level": level, "unspaced": unspaced}
            return {**found, "merges": merges} if level == "subword" else found
    return None


def _rules_and_merges(tokenizer: Any) -> tuple[dict[str, Any], list[str]]:
    """Return all but the words of a tokenizer's file, and the pieces that it merges."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    model = rules["model"]
    rules["model"] = model["type"]
    rules["truncation"] = rules["padding"] = None
    return rules, list(map(" ".join, model.get("merges", [])))


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
    tokenizer = _without_words("subword" if subwords else "word")
    tokenizer.normalizer = _normalizer(lowercase, one_line=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(split=False),
            pre_tokenizers.Split(Regex(_PIECE), "removed", invert=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace()
    _train(tokenizer, texts, vocab_size, min_frequency, EOS_TOKEN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS_TOKEN}", special_tokens=[(EOS_TOKEN, len(SPECIAL_TOKENS))]
    )
    return _fast(tokenizer, ["input_ids", "attention_mask"], eos_token=EOS_TOKEN)


def with_texts_apart(tokenizer: TokenizersBackend) -> TokenizersBackend:
    """Return a tokenizer that puts its special tokens around each text of a pair as around one.

    It is of the class of `build_tokenizer`: that of a model, such as BERT, makes its own pairs.
    """
    if not tokenizer.num_special_tokens_to_add():
        return tokenizer
    marks = tokenizer("").tokens()
    start = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"].index(0)
    single = [*marks[:start], "$A", *marks[start:]]
    second = ["$B:1" if token == "$A" else f"{token}:1" for token in single]
    template = processors.TemplateProcessing(
        single=single,
        pair=single + second,
        special_tokens=[(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in set(marks)],
    )
    return LenientTokenizer(
        tokenizer_object=tokenizer.backend_tokenizer,
        # Byte-level tokens may begin with the space before a word; others are not changed.
        post_processor=processors.Sequence([processors.ByteLevel(), template]),
        **tokenizer.special_tokens_map,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def _without_words(level: Level) -> Tokenizer:
    if level == "subword":
        return Tokenizer(models.BPE(unk_token=UNK_TOKEN))
    return Tokenizer(models.WordLevel({}, UNK_TOKEN))


def _normalizer(lowercase: bool, one_line: bool) -> normalizers.Normalizer:
    """Return the normalizer of texts; `one_line` makes every run of white space one space."""
    apostrophe = normalizers.Replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    steps = [normalizers.NFC(), apostrophe]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if one_line:
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return normalizers.Sequence(steps)


def _train(
    tokenizer: Tokenizer, texts: Iterable[str], vocab_size: int, min_frequency: int, *more: str
) -> None:
    """Learn the special tokens and the words."""
    trainer = tokenizer.model.get_trainer()
    trainer.vocab_size = vocab_size
    trainer.min_frequency = min_frequency
    trainer.special_tokens = [*SPECIAL_TOKENS, *more]
    trainer.show_progress = False
    tokenizer.train_from_iterator(checked_texts(texts, "Counting words"), trainer)


def checked_texts(texts: Iterable[str], purpose: str) -> Iterator[str]:
    """Yield texts with a progress bar after a second.

    ValueError names a text that cannot be tokenized, also a single one in the place of texts.
    """
    if isinstance(texts, str | Mapping):
        raise refusal(f"texts is a {type(texts).__name__}", "pass a list of texts, or a column")
    shown = logging.tqdm(texts, desc=purpose, unit=" texts", delay=1)
    for position, text in enumerate(shown):
        fault = text_fault(text)
        if fault is not None:
            raise refusal(
                f"text {position} (counted from 0): {fault}",
                'from a dataset, pass one column: dataset["text"]',
            )
        yield text


def _extended(tokenizer: Tokenizer, extra_words: Iterable[str], vocab_size: int) -> dict[str, int]:
    """Return the vocabulary with the extra words that fit into it and are single tokens."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    for word in extra_words:
        if len(vocabulary) >= vocab_size:
            break
        pieces = cut(word, tokenizer)
        if len(pieces) == 1:
            vocabulary.setdefault(pieces[0], len(vocabulary))
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
    )
