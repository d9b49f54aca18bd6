"""Tokenizers built from texts: stock fast tokenizers, which read any text."""

import json
import logging
import math
import random
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerBase, TokenizersBackend
from transformers.utils.logging import tqdm

from ..models.checkpoint import readable
from ..utils.lenient_tokenizer import (
    EOS_TOKEN,
    PAD_TOKEN,
    SPECIAL_TOKENS,
    UNK_TOKEN,
    LenientTokenizer,
)
from ..utils.text import UNSPACED, refusal

logger = logging.getLogger(__name__)

Level = Literal["word", "subword"]

# Of each level, the most entries of a vocabulary and the fewest occurrences of one. A word that is
# met once would be one piece, and the model would never see its parts: of 1,000 Korean reviews it
# learnt six points less. So fewer texts have fewer and shorter pieces.
DEFAULTS = {"word": (30_000, 1), "subword": (8_000, 20)}

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

# Of 10,000 words of English reviews, letters, questions and fortunes 8 to 13 % are new forms of
# others, of French and German texts 6 to 13 %. Of Hungarian, Turkish, Czech, Polish and Russian
# texts it is 16 to 20 %, of Korean reviews 25 %.
MIN_NEW_FORMS = 0.14  # of the words, from which on a model reads pieces
MIN_WORDS = 500  # of a sample; fewer say nothing
MAX_WORDS = 10_000
MAX_LENGTH = 2_000  # characters of one text, so that the sample has words of many texts
STEM = 0.6  # of the letters of a word: two words with the same beginning are forms of one
MIN_STEM = 3  # letters


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int | None = None,
    lowercase: bool = True,
    min_frequency: int | None = None,
    *,
    level: Level = "word",
    extra_words: Iterable[str] = (),
) -> TokenizersBackend:
    """Build a tokenizer of the words, or of the pieces of words, that some texts hold.

    A text is normalised (NFC, a curly apostrophe made straight, lower case if asked for) and cut
    at white space; each punctuation mark and symbol is then a token of its own. English
    contractions are cut as in the Penn Treebank, "don't" into "do" and "n't": GloVe's vectors were
    trained on such tokens, and every negated verb shares one "n't". Texts in scripts without
    spaces (Han, Kana, Thai, Lao, Khmer, Burmese) are cut into characters with their marks, even
    where spaces were put between their words.

    With `level="subword"` each word is then cut into pieces by byte-pair encoding (Sennrich et al.,
    2016): frequent words stay whole, a rare one becomes its stem and endings, and only a character
    that the texts lack is unknown. `word_ids()` of an encoding says which tokens form a word.

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
        level: Whether a token is a word or a piece of a word.
        extra_words: Words to keep although the texts lack them, the important ones first, such as
            those of a file of vectors (`vectors.vector_rows`). They fill the room that the words of
            the texts leave. A word that this tokenizer would cut in two is passed over; with
            `level="subword"` all are.

    Raises ValueError if `texts` is a single text or a mapping, or no word is left; KeyError for
    another level.
    """
    default_size, default_frequency = DEFAULTS[level]
    vocab_size = vocab_size or default_size
    min_frequency = min_frequency or default_frequency
    tokenizer = _trained(
        untrained(lowercase),
        texts,
        level == "subword",
        vocab_size,
        min_frequency,
        level=level,
        lowercase=lowercase,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    if level == "word":
        add_words(tokenizer, extra_words, vocab_size)
    if len(tokenizer) == len(SPECIAL_TOKENS):
        raise refusal(
            f"no word of the texts is left by {min_frequency=} and {vocab_size=}", "change one"
        )
    return tokenizer


def add_words(tokenizer: TokenizersBackend, words: Iterable[str], vocab_size: int) -> None:
    """Let a tokenizer of words know more of them, while there is room in its vocabulary."""
    backend = tokenizer.backend_tokenizer
    vocabulary = tokenizer.get_vocab()
    for word in words:
        if len(vocabulary) >= vocab_size:
            break
        pieces = cut(word, backend)
        if len(pieces) == 1:
            vocabulary.setdefault(pieces[0], len(vocabulary))
    backend.model = models.WordLevel(vocabulary, UNK_TOKEN)


def untrained(lowercase: bool = True) -> Tokenizer:
    """Return a tokenizer that spells and cuts texts as `build_tokenizer` says, without words."""
    steps = [normalizers.NFC(), normalizers.Replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")]
    if lowercase:
        steps.append(normalizers.Lowercase())
    tokenizer = Tokenizer(models.WordLevel({}, UNK_TOKEN))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_APART), "isolated")]
    )
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

    `lowercase` and `level` are its arguments; `merges` are the pieces of words that are merged, two
    with a space between, in the order in which they are.
    """
    made_with = tokenizer.init_kwargs
    if made_with.get("level") not in DEFAULTS or len(tokenizer) > tokenizer.vocab_size:
        return None
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    merges = list(map(" ".join, model.get("merges", [])))
    return {"lowercase": made_with["lowercase"], "level": made_with["level"], "merges": merges}


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
    tokenizer = untrained(lowercase)
    tokenizer.normalizer = normalizers.Sequence(
        [tokenizer.normalizer, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(split=False),
            pre_tokenizers.Split(Regex(_PIECE), "removed", invert=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS_TOKEN}", special_tokens=[(EOS_TOKEN, len(SPECIAL_TOKENS))]
    )
    return _trained(
        tokenizer,
        texts,
        subwords,
        vocab_size,
        min_frequency,
        eos_token=EOS_TOKEN,
        model_input_names=["input_ids", "attention_mask"],
    )


def with_texts_apart(tokenizer: TokenizersBackend) -> TokenizersBackend:
    """Return a tokenizer that puts its special tokens around each text of a pair as around one.

    It is of the class of `build_tokenizer`: that of a model, such as BERT, makes its own pairs.
    """
    empty = tokenizer("")
    single = empty.tokens()
    if not single:
        return tokenizer
    special_tokens = list(zip(single, empty["input_ids"], strict=True))
    single.insert(tokenizer("a").sequence_ids().index(0), "$A")
    second = [f"{token}:1".replace("$A", "$B") for token in single]
    template = processors.TemplateProcessing(
        single=single, pair=single + second, special_tokens=special_tokens
    )
    return LenientTokenizer(
        tokenizer_object=tokenizer.backend_tokenizer,
        # Byte-level tokens may begin with the space before a word; others are not changed.
        post_processor=processors.Sequence([processors.ByteLevel(), template]),
        **tokenizer.special_tokens_map,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def _trained(
    tokenizer: Tokenizer,
    texts: Iterable[str],
    are_pieces: bool,
    vocab_size: int,
    min_frequency: int,
    **options: Any,
) -> LenientTokenizer:
    """Learn words, or their pieces; `AutoTokenizer` loads the `tokenizer.json` that this saves."""
    trainer_class: Any = trainers.WordLevelTrainer
    if are_pieces:
        tokenizer.model = models.BPE(unk_token=UNK_TOKEN)
        trainer_class = trainers.BpeTrainer
    trainer = trainer_class(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIAL_TOKENS, *filter(None, [options.get("eos_token")])],
        show_progress=False,
    )
    tokenizer.train_from_iterator(checked_texts(texts), trainer)
    return LenientTokenizer(
        tokenizer_object=tokenizer,
        pad_token=PAD_TOKEN,
        unk_token=UNK_TOKEN,
        split_special_tokens=True,
        **options,
    )


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts as a tokenizer reads them; refuse one text, and rows that are none."""
    if isinstance(texts, str | Mapping):
        way_out = 'pass a list of strings, from a dataset one column: dataset["text"]'
        raise refusal(f"texts is a {type(texts).__name__}", way_out)
    return map(readable, tqdm(texts, desc="Reading texts", delay=1))


def choose_level(texts: Sequence[str]) -> Level:
    """Return "subword" where many words are new forms of known ones, else "word".

    Where words take many endings (Korean, Turkish, Finnish, Hungarian), a new text is full of new
    forms of known words, which a tokenizer of words cannot read. Their share hardly depends on the
    number of texts: it is counted between two halves of a sample, each of 250 to 5,000 words. A new
    word without a known stem, such as a name, does not count: its pieces would mean nothing either.
    Nor does a word with a digit, such as an article number: each is new, and shares its beginning
    with all others.

    The log names the choice and the share. The same texts give the same choice.
    """
    cutter = untrained()
    sampled = random.Random(0).sample(texts, min(len(texts), MAX_WORDS))
    words = (
        word
        for text in sampled
        for word in cut(text[:MAX_LENGTH], cutter)
        if word[0].isalpha() and not any(map(str.isdigit, word))
    )
    # Syllables of Korean are taken apart: endings begin within them.
    sample = [unicodedata.normalize("NFD", word) for word in islice(words, MAX_WORDS)]
    middle = len(sample) // 2
    share = new_form_share(sample[:middle], sample[middle:])
    level: Level = "word"
    if len(sample) >= MIN_WORDS and share >= MIN_NEW_FORMS:
        level = "subword"
    logger.info(f"level: {level} ({share:.1%} of {len(sample):,} words are new forms of others)")
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
