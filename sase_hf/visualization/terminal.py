"""Attention in the terminal: the running text in colour, or its strongest words in plain text."""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain

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
from .rendering import signed

UNDERLINED, BOLD = 0.25, 0.6  # strengths

# The colours of the page's light scheme. The paper is painted too: the stronger word is the darker
# one on a dark terminal as well.
INK, PAPER, MARK = (31, 29, 26), (255, 254, 251), (247, 164, 74)
PRO, CON = (108, 176, 236), (242, 121, 107)
RESET = "\x1b[0m"


def attention_text(result: Result, top: int = 5, *, color: bool | None = None) -> str:
    """Name the strongest words of each text and their shares of the attention, for a terminal.

    In colour the text comes first: a word with more than an even share has a colour, and the
    strongest words are underlined and bold. A line "why" follows if the result has contributions:
    what all words of the text added to the logit of the target, and the words that added most to it
    or took most from it, in the hops and by themselves. A last line has the rest, if there is one.
    `top` is how many words to name. The 24-bit `color` is by default used if standard output is a
    terminal that has it (`COLORTERM`) and `NO_COLOR` is not set.
    """
    texts = parse_result(result)
    in_color = _has_true_color() if color is None else color
    lines = []
    for text in texts:
        if in_color:
            lines.append(_colored(text))
        top_words = text.top_words(0, top)
        if text.reads_evenly(0):
            lines.append(f"({READS_EVENLY})")
        else:
            # A joiner at the end of a word joins nothing, so `visible` must see the word alone.
            lines.append(", ".join(f"{visible(word)} {weight:.0%}" for word, weight in top_words))
        words_added = _largest(text, top)
        if words_added:
            target = visible(label_text(result.get("target", result["label"])))
            total = signed(sum(text.added or ()))
            lines.append(f"why {target} {total}: {_reasons(words_added, in_color)}")
        if text.truncated:
            lines.append(f"(tokens cut off at the end and not read: {text.truncated:,})")
    totals = totals_of(result, texts)
    if totals is not None and any(text.words for text in texts):
        rest = signed(totals.rest)
        if rest != signed(0.0):
            lines.append(f"the rest {rest}: what no word of the text added")
    return "\n".join(lines)


def comparison_text(results: Mapping[str, Sequence[Result]]) -> str:
    """Show `attention_text` of one model or several for the same texts.

    `results` holds by the name of each model its results for the texts, in the same order; the name
    of a single model may be empty.
    """
    lines = []
    for same_text in zip(*results.values(), strict=True):
        if not _has_true_color():
            text = same_text[0]["text"]
            sides = [text] if isinstance(text, str) else text
            lines += [f'"{visible(side)}"' for side in sides]
        for name, result in zip(results, same_text, strict=True):
            lines.append(visible(_prediction(name, result)))
            lines.append(attention_text(result))
        lines.append("")
    return "\n".join(lines)


def _prediction(name: str, result: Result) -> str:
    """Return what the model with this name predicts, its score, and the true label if known."""
    line = predicted_text(result)
    if name:
        line = f"{name}: {line}"
    if "labels" not in result:
        line += f" {result['score']:.3f}"
    if "true_label" in result:
        line += f", true label {label_text(result['true_label'])}"
    return line


def _largest(text: AttendedText, count: int) -> list[tuple[str, float]]:
    """Return the words that added most to the target or took most from it, with their numbers."""
    if text.added is None:
        return []
    words_added = chain(*text.for_and_against(text.added, count))
    return sorted(words_added, key=lambda word_added: -abs(word_added[1]))[:count]


def _reasons(words_added: Sequence[tuple[str, float]], in_color: bool) -> str:
    """Return words with what they added, the first in full colour."""
    full = abs(words_added[0][1])
    reasons = []
    for word, added in words_added:
        reason = f"{signed(added)} {visible(word)}"
        if in_color:
            mark = PRO if added > 0 else CON
            reason = f"{_style(abs(added) / full, mark)}{reason}{RESET}"
        reasons.append(reason)
    return ", ".join(reasons)


def _has_true_color() -> bool:
    """Return whether standard output is a terminal with 24-bit colours, and the user wants them."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return False
    return os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")


def _colored(text: AttendedText) -> str:
    """Return a text with its words on the colours of their strengths."""
    plain = _style(0.0)
    pieces = [plain]
    done = 0
    for (start, end), strength in zip(text.words, text.strengths(0), strict=True):
        if not strength:
            continue
        pieces += [text.part(done, start), _style(strength), text.part(start, end), plain]
        done = end
    pieces.append(text.part(done, len(text.text)))
    # A line that ended in the colour of the paper would have it up to the right edge.
    return "".join(pieces).replace("\n", f"{RESET}\n{plain}") + RESET


def _style(strength: float, mark: tuple[int, int, int] = MARK) -> str:
    """Return the escape sequence for a word of a strength."""
    codes = ["0"]
    if strength >= BOLD:
        codes.append("1")
    if strength >= UNDERLINED:
        codes.append("4")
    paper = (round(low + strength * (high - low)) for low, high in zip(PAPER, mark, strict=True))
    codes += ["38", "2", *map(str, INK)]
    codes += ["48", "2", *map(str, paper)]
    return f"\x1b[{';'.join(codes)}m"
