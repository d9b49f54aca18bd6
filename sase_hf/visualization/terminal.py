"""Results in the terminal: the answer, how sure it is, which words decided, then the attention."""

from collections.abc import Mapping, Sequence
from itertools import chain

from ..models.answers import answers_of_kind
from ..utils.text import visible
from .attended_text import (
    READS_EVENLY,
    AttendedText,
    Result,
    label_text,
    parse_result,
    predicted_text,
    totals_of,
)
from .rendering import percent, signed

LEAST_SHARE = 0.05  # of that of the most read word, which another must have to be named


def attention_text(result: Result, top: int = 5) -> str:
    """Return the answer of a result, its score, and why, as lines for a terminal.

    "why" has for each text what all its words added to the logit of the target, and the `top` words
    that added most to it or took most from it, in the hops and by themselves. Behind it stand the
    words with the largest shares of the attention, or, where the hops added less than a third of
    the logit, how much they did.
    """
    texts = parse_result(result)
    target = visible(label_text(result.get("target", result["label"])))
    lines = [_answer(result)]
    for text in texts:
        if text.added and (reasons := _why(text.for_and_against(text.added, top))):
            lines.append(f"why {target} {signed(sum(text.added))}: {', '.join(reasons[:top])}")
        if text.truncated:
            lines.append(f"(tokens cut off at the end and not read: {text.truncated:,})")
    totals = totals_of(result, texts)
    if totals is not None and totals.are_hops_behind:
        lines.append(f"(hops added {signed(totals.by_hops)} of {signed(totals.together)})")
    else:
        lines += [f"reads {_most_read(text, top)}" for text in texts if text.words]
    if totals is not None and signed(totals.rest) != signed(0.0):
        lines.append(f"the rest {signed(totals.rest)}: what no word of the text added")
    return "\n".join(lines)


def comparison_text(results: Mapping[str, Sequence[Result]]) -> str:
    """Show `attention_text` of one model or several for the same texts.

    `results` holds by the name of each model its results for the texts, in the same order; the name
    of a single model may be empty.
    """
    lines = []
    for same_text in zip(*results.values(), strict=True):
        text = same_text[0]["text"]
        lines += [f'"{visible(side)}"' for side in ([text] if isinstance(text, str) else text)]
        for name, result in zip(results, same_text, strict=True):
            of_model = f"{visible(name)}: " if name else ""
            lines.append(of_model + attention_text(result))
        lines.append("")
    return "\n".join(lines)


def _answer(result: Result) -> str:
    """Return what is predicted, its score, and the true label if it is known."""
    line = predicted_text(result)
    if "labels" not in result:
        line += f" {answers_of_kind(result.get('kind')).shown(result['score'])}"
    if "true_label" in result:
        line += f", true label {label_text(result['true_label'])}"
    return visible(line)


def _why(for_and_against: Sequence[Sequence[tuple[str, float]]]) -> list[str]:
    """Return reasons with their numbers, the strongest first."""
    reasons = sorted(chain(*for_and_against), key=lambda word_added: -abs(word_added[1]))
    return [f"{signed(added)} {visible(word)}" for word, added in reasons]


def _most_read(text: AttendedText, top: int) -> str:
    """Return the words with the largest shares of the attention of all hops."""
    if text.reads_evenly(0):
        return READS_EVENLY.removeprefix("reads ")
    words = text.top_words(0, top)
    least = LEAST_SHARE * words[0][1]
    # A joiner at the end of a word joins nothing, so `visible` must see the word alone.
    return ", ".join(f"{visible(word)} {percent(share)}" for word, share in words if share >= least)
