"""Do the words with the highest scores agree with the words that people mark as reasons?

The units are the words between white space: the score of a word is the sum over its tokens, and a
word is marked if it shares a character with a span. A word without a token, such as one behind the
last token that the model reads, is left out. The scores are those of `attributions`, and with a
list of rated words their ratings.

Shapes: N texts, T tokens and W words of a text, K attributions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sase_hf.data.marks import marked_tokens
from sase_hf.utils.errors import refusal

from .attributions import UNSIGNED, Attributions, attributions
from .dataset import EvaluationDataset
from .faithfulness import mean_with_interval

AGREEMENT = ("average_precision", "token_f1", "top_1", "sign")
WITHOUT_SIGN = (*UNSIGNED, "random", "rated_words")
GROUP_ENDS = (1 / 3, 2 / 3, 1)  # shares of the texts at which the groups by length end


def measure_agreement(
    dataset: EvaluationDataset,
    ratings: Mapping[str, float] | None = None,
    *,
    seed: int = 42,
    **options: Any,
) -> dict[str, Any]:
    """Compare the words with the highest scores with the marked ones, on rows `with_marks`.

    `ratings` are sizes of the opinion of words, whose case does not matter. `options` are those of
    `attributions`. A text whose marks are on no word that the model reads is left out.

    Returns `metrics`: what `agreement` measures, means over texts, named `<attribution>_<measure>`;
    `sign` over the texts whose label the model predicts, without attributions that have none.
    `intervals`: the same means with `low` and `high`, the 95 % confidence interval by the bootstrap
    over texts. `by_length`: groups of texts, from the shortest to the longest, with
    `average_precision` by attribution. `num_texts` and `num_left_out`. Raises as `attributions`
    does, and ValueError if no text is left.
    """
    rated = {word.casefold(): rating for word, rating in (ratings or {}).items()}
    lengths: list[int] = []
    texts: list[dict[str, np.ndarray]] = []
    for batch in attributions(dataset, "Comparing words", seed=seed, **options):
        for place, row in enumerate(dataset.rows.select(batch.numbers).to_list()):
            measured = _of_text(dataset.tokenizer, row, batch, place, rated)
            if measured is not None:
                num_words, of_text = measured
                lengths.append(num_words)
                texts.append(of_text)
    if not texts:
        raise refusal("no text has a mark on a word that the model reads", "give marked texts")
    values = {
        name: np.stack([of_text[name] for of_text in texts], 1) for name in texts[0]
    }  # (4, N)
    intervals: dict[str, dict[str, float]] = {}
    for name, of_name in values.items():
        for measure, of_texts in zip(AGREEMENT, of_name, strict=True):
            if measure == "sign" and name in WITHOUT_SIGN:
                continue
            known = of_texts[~np.isnan(of_texts)]
            if known.size:
                intervals[f"{name}_{measure}"] = mean_with_interval(known, seed)
    precisions = {
        name: of_name[AGREEMENT.index("average_precision")] for name, of_name in values.items()
    }
    return {
        "metrics": {name: interval["mean"] for name, interval in intervals.items()},
        "intervals": intervals,
        "by_length": by_length(np.array(lengths), precisions),
        "num_texts": len(lengths),
        "num_left_out": dataset.rows.num_rows - len(lengths),
    }


def _of_text(
    tokenizer: Any,
    row: Mapping[str, Any],
    batch: Attributions,
    place: int,
    ratings: Mapping[str, float],
) -> tuple[int, dict[str, np.ndarray]] | None:
    """Return the number of words, and `agreement` by attribution (4,); None without a mark."""
    text = row["text"]
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    offsets = offsets[: len(row["input_ids"])]
    words, of_word = words_of(text, offsets)
    marked = np.array(marked_tokens(words, row["spans"])) > 0
    against = np.array(marked_tokens(words, row.get("against") or ())) > 0
    if not marked.any():
        return None
    real = batch.batch["attention_mask"][place] != 0
    scores = [score[place][real].double().cpu().numpy() for score in batch.scores]
    of_tokens = [ratings.get(text[start:end].casefold(), 0.0) for start, end in offsets]
    scores.append(np.array(of_tokens))
    measured = agreement(np.stack(scores) @ of_word.T, marked, against)
    if row.get("labels") != batch.classes[place].item():
        measured[:, AGREEMENT.index("sign")] = np.nan
    by_name = batch.by_name(measured[:-1])
    if ratings:
        by_name["rated_words"] = measured[-1]
    return len(words), by_name


def words_of(
    text: str, offsets: Sequence[Sequence[int]]
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Return the words with tokens, by start and end, and the tokens of each, of bool (W, T).

    `offsets` are the start and end of each token in the text.
    """
    words = np.array([word.span() for word in re.finditer(r"\S+", text)]).reshape(-1, 1, 2)
    tokens = np.array(offsets).reshape(-1, 2)
    first = np.maximum(words, tokens)[..., 0]
    last = np.minimum(words, tokens)[..., 1]
    shares_character = first < last  # (W, T)
    has_token = shares_character.any(1)
    spans = [(start, end) for start, end in words[has_token, 0].tolist()]
    return spans, shares_character[has_token]


def agreement(scores: np.ndarray, marked: np.ndarray, against: np.ndarray) -> np.ndarray:
    """Return four measures of each attribution, shape (K, 4), from scores of shape (K, W).

    - `average_precision` of the order of the words, the highest score first, equal scores as in
      the text;
    - `token_f1` of as many words, the highest, as are marked;
    - `top_1`: whether the highest word is marked;
    - `sign`: the share of the marked words (W,) whose score is above 0 or, for those marked as
      `against` (W,) the label, below 0.
    """
    num_marked = marked.sum()
    hits = marked[np.argsort(-scores, axis=1, kind="stable")]
    precision = hits.cumsum(1) / np.arange(1, len(marked) + 1)
    average_precision = np.where(hits, precision, 0).sum(1) / num_marked
    token_f1 = precision[:, num_marked - 1]
    top_1 = hits[:, 0]
    has_sign = np.where(against, scores < 0, scores > 0)
    sign = has_sign[:, marked].mean(1)
    return np.stack([average_precision, token_f1, top_1, sign], 1)


def by_length(lengths: np.ndarray, values: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return the mean of values (N,) by name in thirds of the texts by their lengths (N,)."""
    ends = np.quantile(lengths, GROUP_ENDS, method="inverted_cdf")
    group_of_text = np.searchsorted(ends, lengths)
    groups = []
    for number in np.unique(group_of_text):
        is_member = group_of_text == number
        members = lengths[is_member]
        means = {name: float(of_texts[is_member].mean()) for name, of_texts in values.items()}
        groups.append(
            {
                "from": int(members.min()),
                "to": int(members.max()),
                "texts": len(members),
                "average_precision": means,
            }
        )
    return groups
