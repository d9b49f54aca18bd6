"""The `self-attention` pipeline: text in; label, scores and attention out."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import Pipeline
from transformers.utils import logging

from .answers import answers_of
from .checked_files import check_tokenizer_of
from .checked_model import encode_read
from .contributions_self_attentive import check_explainable, explain
from .pooling_self_attentive import cosine_penalty

logger = logging.get_logger(__name__)

Result = dict[str, Any]  # of one input: its fields are listed at `SelfAttentionPipeline`

TASK = "self-attention"
PAIR_FIELDS = ("text", "text_pair")  # of an input
MIN_RATIO = 1.5  # least weight of a token in a span, over an even share
MIN_RANKED = 100  # tokens of a text; its sentences are ranked if it has more
MAX_NAMED_LABELS = 20  # in an error
# Where a sentence may end: white space, or the marks of Chinese and Japanese with closing quotes.
_BREAK = re.compile("\\s+|[\u3002\uff01\uff1f\uff61]+[\u201d\u2019\u300d\u300f\uff09]*")
# Arguments of the tokenizer that leave each result its form.
TOKENIZER_ARGUMENTS = ("add_special_tokens", "split_special_tokens")
_MARKS = tuple(".!?\u2026\u061f\u06d4\u0964")  # ... and those of Arabic, Urdu, Hindi
_CLOSING = "\"'\u201d\u2019\u00bb)]"
# The scripts without spaces: Thai, Lao, Burmese, Khmer, Chinese and Japanese.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
_UNSPACED = re.compile(UNSPACED)


class Span(TypedDict):
    """A part of a text, as in the `spans` and `sentences` of a result."""

    text: str
    start: int
    end: int
    weight: float
    added: NotRequired[float]


class _Read(TypedDict):
    """What the model read and answered for one input, a batch of one: B is 1, L labels.

    A pair that is encoded apart has sides, (B, 2, ...), in `attention`, `contributions` and
    `pair_attention`, and (B, K, 2, r) in `hops`.
    """

    texts: list[str]  # one, or two
    offsets: list[list[int]]  # of the T real tokens
    names: list[str]  # of these tokens
    word_ids: list[int | None]  # by the tokenizer
    truncated: list[int]  # tokens of each text that were cut off
    logits: Tensor  # (B, L)
    attention: Tensor  # (B, r, T)
    attention_mask: Tensor  # (B, T)
    token_type_ids: Tensor  # (B, T)
    pair_attention: NotRequired[Tensor]  # (B, T, T)
    # Those of `Contributions`.
    labels: NotRequired[Tensor]
    contributions: NotRequired[Tensor]
    linear: NotRequired[Tensor]
    words: NotRequired[Tensor]
    rest: NotRequired[Tensor]
    hop_labels: NotRequired[Tensor]
    hops: NotRequired[Tensor]
    linear_of_labels: NotRequired[Tensor]


class SelfAttentionPipeline(Pipeline):
    """Classify texts or pairs of texts and show the attention behind it.

    Takes a text, a pair as `{"text": ..., "text_pair": ...}`, or several (with `batch_size` in
    batches). A list, a tuple or a column of a `datasets.Dataset` gives a list of results; a
    dataset, a generator or any other iterable gives an iterator. Each result is a plain dict:

    - `text`: the input;
    - `kind`: what the model answers: "single_label_classification", "multi_label_classification"
      or "regression";
    - `label`, `score`: the best label and its probability (for a regression its value);
    - `scores`: label -> probability, or value;
    - `labels`, only with several labels per text: those with a probability above 0.5, maybe none;
    - `answer_set`, only with `config.answer_threshold`: the labels that may be right, best first;
    - `tokens`, `offsets`: the T tokens as they stand in the text, and their (start, end) in it;
      an added token, such as `[CLS]`, has its name and an empty span;
    - `word_ids`: for each token the number of its word in the text, from 0, T numbers: the pieces
      of a word share one; an added token has None;
    - `attention`: A, r lists of T floats;
    - `overall`: the hops summed and renormalised to 1, T floats (section 2.3 of the paper);
    - `cosine`: mean cosine between two hops: 1 when they read the same, 0 when they share no token;
      None for one hop;
    - `spans`: the parts of the text that got the most attention, strongest first, each with its
      `text`, `start`, `end`, and as `weight` its share of `overall`. A span is a longest run of
      words that each get more than `MIN_RATIO` = 1.5 times an even share, which is 1 over the
      number of words and added tokens; a text that is read evenly has none;
    - `sentences` (texts over `MIN_RANKED` = 100 tokens, else none): dicts with `text`, `start`,
      `end`, `weight` (sum of `overall`) and `added` (sum of `word_contributions`), highest `added`
      first. Without contributions the highest `weight` is first;
    - `target`: the label that is explained, by default the best one; `target=` names another;
    - `word_contributions`: what each token added to the logit of the target, T floats, with a sign:
      below zero, the token spoke against it;
    - `rest`: what the hops added beyond these: nothing but rounding, unless the encoder is a
      pretrained one or a relation network; of a pair that is read as one text, that of both;
    - `contributions`: what each hop added where it looked, r lists of T floats. With
      `linear_contributions`, as `word_contributions` with `rest`, they sum to the logit minus that
      of a text without tokens; where a text
      has one label, logits are taken minus their mean over all labels;
    - `hop_contributions`: label -> what each hop added to it, r floats. Of a model of more than 100
      labels the target and the 99 likeliest others are in it; `target=` names another;
    - `linear_contributions`, only with a linear part: what each token added by itself, T floats,
      which `word_contributions` count in; half of what a pair of neighbours added is of each;
    - `linear_totals`, only with a linear part: label -> what all words added by themselves;
    - `pair_attention`, only if a relation network weighs pairs: T lists of T floats, the weights
      that each token gave to its partners;
    - `truncated`: how many tokens are beyond the limit of the model and were not read.

    For a pair, `text` and all fields from `tokens` on but `target` hold a list of two, one for each
    sentence. A ranker has no labels, so its results have no contributions.

    Autocast is off inside: the model reads in the precision of its weights.

    Of a text the model reads the first `config.max_tokens` tokens, of a pair those of each; the
    first longer text is logged as a warning. `match_rows=True` is for a retrieval head, whose
    `forward` describes it.

    Raises:
        ValueError: If the model has no attention, the tokenizer is of other weights or has no
            offsets, an argument is unknown, or an input is neither a text nor a pair, or a single
            text where the model compares two.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not getattr(self.model.config, "has_attention", False):
            pooling = getattr(self.model.config, "pooling", None)
            raise ValueError(
                f"the {TASK} pipeline shows attention, and a {type(self.model).__name__} with "
                f"pooling={pooling!r} has none; use text-classification"
            )
        if self.tokenizer is None or not self.tokenizer.is_fast:
            raise ValueError(
                f"the {TASK} pipeline needs a tokenizer with offsets; make one with "
                "sase_hf.build_tokenizer"
            )
        check_tokenizer_of(self.model, self.tokenizer)

    def __call__(self, inputs: object, *args: Any, **kwargs: Any) -> Any:
        """Return the result of one input, or the results of several in their order."""
        if isinstance(inputs, str | bytes | Mapping | Dataset) or not isinstance(inputs, Iterable):
            return super().__call__(inputs, *args, **kwargs)
        if not isinstance(inputs, Sequence):
            return super().__call__((item for item in inputs), *args, **kwargs)
        if not len(inputs):
            return []  # transformers looks at the first one
        # Like lengths share a batch; the longest first: memory runs out in this batch or never.
        texts = list(inputs)
        order = sorted(range(len(texts)), key=lambda place: -len(str(texts[place])))
        results = super().__call__([texts[place] for place in order], *args, **kwargs)
        by_place = dict(zip(order, results, strict=True))
        return [by_place[place] for place in range(len(texts))]

    def _sanitize_parameters(
        self, target: str | None = None, match_rows: bool = False, **tokenizer_kwargs: object
    ) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
        for name in tokenizer_kwargs:
            if name not in TOKENIZER_ARGUMENTS:
                allowed = ", ".join(("target", "match_rows", *TOKENIZER_ARGUMENTS))
                raise ValueError(
                    f"{name} is not an argument of the {TASK} pipeline, whose results have the "
                    f"`scores` of all labels; allowed are batch_size, num_workers, {allowed}"
                )
        options: dict[str, object] = {}
        if match_rows:
            options["match_rows"] = True
        if target is not None:
            options["target"] = self._id_of(target)
        return tokenizer_kwargs, options, {}

    def _id_of(self, target: str) -> int:
        """Return the id of the label to explain; ValueError if there is none of this name."""
        check_explainable(self.model)
        for label_id, name in self._names.items():
            if name == target:
                return label_id
        names = list(self._names.values())
        shown = names[:MAX_NAMED_LABELS]
        if len(names) > len(shown):
            shown.append(f"... ({len(names):,} in all)")
        raise ValueError(f"target is {target!r}; the labels are {', '.join(shown)}")

    def preprocess(self, input_: object, **tokenizer_kwargs: Any) -> dict[str, Any]:
        """Tokenize one text or pair, keeping the offsets."""
        texts = _texts_of(input_, self.model, TASK)
        assert self.tokenizer is not None
        options = {"return_offsets_mapping": True, **tokenizer_kwargs}
        encoded, truncated = encode_read(self.model, self.tokenizer, texts, **options)
        shown = {
            "texts": texts,
            "offsets": encoded.pop("offset_mapping"),
            "names": self.tokenizer.convert_ids_to_tokens(encoded["input_ids"]),
            "word_ids": encoded.pop("word_ids"),
            "truncated": truncated,
        }
        # A batch padded on the left cannot take in a row without tokens: give it one of padding.
        padding = [] if encoded["input_ids"] else [0]
        tensors = {name: torch.tensor([row + padding]) for name, row in encoded.items()}
        return {**tensors, **shown}

    def _forward(self, input_tensors: dict[str, Any], **options: Any) -> Any:
        fields = ("texts", "offsets", "names", "word_ids", "truncated")
        shown = {name: input_tensors.pop(name) for name in fields}
        target = options.pop("target", None)
        # In the precision of the weights, which `explain` reads as float32.
        with torch.autocast(self.device.type, enabled=False):
            outputs = self.model(**input_tensors, output_attentions=True, **options)
        if hasattr(self.model, "classify"):
            best = outputs.logits.argmax(-1)
            labels = best if target is None else torch.full_like(best, target)
            # In a pass of its own: with gradients, kernels round the last bit in another way.
            explanation = explain(self.model, **input_tensors, labels=labels)
            shown.update(explanation._asdict())
        if outputs.get("pair_attentions") is not None:
            shown["pair_attention"] = outputs.pair_attentions
        return {
            **shown,
            "logits": outputs.logits,
            "attention": outputs.attentions[0],
            "attention_mask": input_tensors["attention_mask"],
            "token_type_ids": input_tensors["token_type_ids"],
        }

    def postprocess(self, model_outputs: Any, **_: object) -> Result:
        """Turn the tensors of one input into the result described above."""
        texts = model_outputs["texts"]
        readings = [self._reading_of_side(side, model_outputs) for side in range(len(texts))]
        answers = answers_of(self.model.config)
        scores = answers.scores(model_outputs["logits"][0].float())
        result = answers.result(scores.tolist())
        if "labels" in model_outputs:
            result["target"] = self._names[model_outputs["labels"][0].item()]
        for name in readings[0]:
            values = [reading[name] for reading in readings]
            result[name] = values if len(texts) == 2 else values[0]
        return result

    def _reading_of_side(self, side: int, model_outputs: _Read) -> Result:
        """Return the fields of a result for a text, or for one side of a pair: 0 or 1."""
        real = model_outputs["attention_mask"][0].bool()
        is_of_side = model_outputs["token_type_ids"][0][real] == side
        places = is_of_side.nonzero().flatten().tolist()
        attention = model_outputs["attention"][0].float()[..., real]
        # (2, r, T) where each side has an attention, or (r, T): both sides are read as one text.
        are_apart = attention.ndim == 3

        def of_side(values: Tensor) -> Tensor:
            return values[side] if are_apart else values

        text = model_outputs["texts"][side]
        offsets = [model_outputs["offsets"][place] for place in places]
        names = [model_outputs["names"][place] for place in places]
        word_ids = [model_outputs["word_ids"][place] for place in places]
        hops = of_side(attention)[:, is_of_side]
        reading = {"text": text, **_reading(text, offsets, names, word_ids, hops)}
        reading["truncated"] = model_outputs["truncated"][side]
        if "words" in model_outputs:
            words = model_outputs["words"][0][real]
            contributions = of_side(model_outputs["contributions"][0])[:, real]  # (r, T)
            reading["word_contributions"] = words[is_of_side].tolist()
            reading["rest"] = of_side(model_outputs["rest"][0]).item()
            reading["contributions"] = contributions[:, is_of_side].tolist()
            labels = [self._names[label] for label in model_outputs["hop_labels"][0].tolist()]
            hops_of_labels = [of_side(hops).tolist() for hops in model_outputs["hops"][0]]
            reading["hop_contributions"] = dict(zip(labels, hops_of_labels, strict=True))
            if self.model.linear_part is not None:
                linear = model_outputs["linear"][0][real]
                totals = model_outputs["linear_of_labels"][0]  # (K,), or (K, 2) of a pair
                of_text = totals[:, side] if are_apart else totals
                reading["linear_contributions"] = linear[is_of_side].tolist()
                reading["linear_totals"] = dict(zip(labels, of_text.tolist(), strict=True))
        reading["sentences"] = ranked_sentences(reading)
        if "pair_attention" in model_outputs:
            weights = of_side(model_outputs["pair_attention"][0]).float()  # (T, T)
            weights = weights[real][:, real]
            reading["pair_attention"] = weights[is_of_side][:, is_of_side].tolist()
        return reading

    @property
    def _names(self) -> dict[int, str]:
        return self.model.config.id2label  # type: ignore[return-value]  # keys are ints once set


def _texts_of(input_: object, model: Any, task: str) -> list[str]:
    """Return the text of an input of a pipeline, or the two texts of a pair.

    ValueError is raised for anything else, and for a single text where the model compares two.
    """
    values: list[object] = [input_]
    if isinstance(input_, Mapping) and input_.keys() <= {*PAIR_FIELDS}:
        values = [input_.get(name) for name in PAIR_FIELDS]
        if values[1] is None:
            values.pop()
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        raise ValueError(
            f"the input of the {task} pipeline must be a text or a pair "
            f'{{"text": ..., "text_pair": ...}}; got {input_!r:.200}'
        )
    if len(texts) == 1 and model.reads_pairs:
        raise ValueError(
            f"{type(model).__name__} compares two texts, but the input has one; give "
            '{"text": premise, "text_pair": hypothesis}'
        )
    return texts


def _reading(
    text: str,
    offsets: list[list[int]],
    names: list[str],
    word_ids: list[int | None],
    hops: Tensor,
) -> Result:
    """Describe the attention of the hops (r, T) on one text, with the `offsets` of its T tokens."""
    offsets = with_whole_characters(text, offsets)
    words = words_of_tokens(text, offsets, word_ids)
    total = hops.sum(0)
    overall = (total / total.sum().clamp(min=torch.finfo(total.dtype).tiny)).tolist()
    return {
        "tokens": [
            text[start:end] or name for (start, end), name in zip(offsets, names, strict=True)
        ],
        "offsets": [(start, end) for start, end in offsets],
        "word_ids": words,
        "attention": hops.tolist(),
        "overall": overall,
        "cosine": cosine_penalty(hops.unsqueeze(0)).item() if len(hops) > 1 else None,
        "spans": most_attended(text, offsets, words, overall),
    }


def with_whole_characters(text: str, offsets: list[list[int]]) -> list[list[int]]:
    """Extend tokens over the accents and parts of a Hangul syllable that end them.

    NFC makes one character of such a sequence and gives it the offsets of the first part only.
    """
    taken = {start for start, _ in offsets}
    whole = []
    for start, end in offsets:
        while end < len(text) and end not in taken:
            is_mark = unicodedata.category(text[end]).startswith("M")
            if not (is_mark or "\u1160" <= text[end] <= "\u11ff"):  # vowels and finals of Hangul
                break
            end += 1
        whole.append([start, end])
    return whole


def words_of_tokens(
    text: str, offsets: list[list[int]], word_ids: list[int | None]
) -> list[int | None]:
    """Return for each token the number of its word, from 0; None for one without characters.

    Tokens that the tokenizer calls one word (`word_ids`) are one where letters, marks or digits
    meet. Some tokenizers cut words at spaces only; punctuation stays apart from a word all the
    same, and so do the characters of scripts without spaces, where a word would be a sentence.
    """
    words: list[int | None] = []
    number = -1
    end_of_last = 0
    id_of_last = None
    for (start, end), word_id in zip(offsets, word_ids, strict=True):
        if start == end:
            words.append(None)
            continue
        is_same_word = word_id is not None and word_id == id_of_last
        if not (is_same_word and _is_inside_word(text, start, end_of_last)):
            number += 1
        words.append(number)
        end_of_last = end
        id_of_last = word_id
    return words


def _is_inside_word(text: str, start: int, end_of_last: int) -> bool:
    """Return whether a token at `start` goes on with the word of the token before it."""
    if start != end_of_last:
        return start < end_of_last  # parts of one character
    return all(
        (character.isalnum() or unicodedata.category(character).startswith("M"))
        and not _UNSPACED.match(character)
        for character in text[start - 1 : start + 1]
    )


def most_attended(
    text: str, offsets: list[list[int]], words: list[int | None], overall: list[float]
) -> list[Span]:
    """Return the longest runs of words above `MIN_RATIO` even shares each, strongest first.

    A token without characters, such as `[CLS]`, is in none.
    """
    tokens_of_words: list[list[int]] = []
    for place, word in enumerate(words):
        if word is not None and place and words[place - 1] == word:
            tokens_of_words[-1].append(place)
        else:
            tokens_of_words.append([place])
    least = MIN_RATIO / max(len(tokens_of_words), 1)

    def is_strong(tokens: list[int]) -> bool:
        return words[tokens[0]] is not None and sum(overall[token] for token in tokens) > least

    spans = []
    for are_strong, run in groupby(tokens_of_words, key=is_strong):
        if are_strong:
            spans.append(_part(text, offsets, overall, list(chain.from_iterable(run))))
    return sorted(spans, key=lambda span: -span["weight"])


def _part(text: str, offsets: list[list[int]], overall: list[float], places: list[int]) -> Span:
    """Describe the part of a text with the tokens at these places, and their weight."""
    start, _ = offsets[places[0]]
    _, end = offsets[places[-1]]
    weight = sum(overall[place] for place in places)
    return {"text": text[start:end], "start": start, "end": end, "weight": weight}


def ranked_sentences(reading: Result) -> list[Span]:
    """Return the `sentences` of the reading of a text, in their order.

    A token counts for the sentence in which it begins; one without characters counts for none.
    """
    text = reading["text"]
    offsets = reading["offsets"]
    if len(offsets) <= MIN_RANKED:
        return []
    added = reading.get("word_contributions")
    starts = list(sentence_starts(text))
    with_characters = [token for token, (start, end) in enumerate(offsets) if start < end]
    sentences = []
    for _, run in groupby(
        with_characters, key=lambda token: bisect_right(starts, offsets[token][0])
    ):
        tokens = list(run)
        sentence = _part(text, offsets, reading["overall"], tokens)
        if added is not None:
            sentence["added"] = sum(added[token] for token in tokens)
        sentences.append(sentence)
    return sorted(sentences, key=lambda sentence: -sentence.get("added", sentence["weight"]))


def sentence_starts(text: str) -> Iterator[int]:
    """Yield where the sentences of a text begin.

    A sentence ends with a mark and any closing quotes before white space, with a mark of Chinese or
    Japanese, or with its line; unless a small letter follows, as in "e.g. this" or a wrapped line.
    """
    yield 0
    for found in _BREAK.finditer(text):
        start, end = found.span()
        before = text[max(start - 4, 0) : start].rstrip(_CLOSING)
        is_end = not found[0].isspace() or "\n" in found[0] or before.endswith(_MARKS)
        if is_end and not text[end : end + 1].islower():
            yield end
