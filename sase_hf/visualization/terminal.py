"""Results in the terminal: the answer, how sure it is, which words decided, then the attention."""

from ..utils.text import visible
from .attended_text import (
    NONE_STANDS_OUT,
    Result,
    answer_text,
    doubts_of,
    label_text,
    nearest_text,
    parse_result,
    totals_of,
)
from .rendering import percent, signed


def attention_text(result: Result, top: int = 5) -> str:
    """Return the answer of a result, its score, and why, as lines for a terminal.

    Behind the answer stands what speaks against it. "why" has for each text what its words added
    to the logit of the target, and the `top` words that added most to it or took most from it, in
    the hops and by themselves; "besides" is what the logit has beyond these sums. Behind it stand
    the words that were read more than others, or, where the hops added less than a third of the
    logit, how much they did; last the nearest texts.
    """
    texts = parse_result(result)
    totals = totals_of(result, texts)
    answer = answer_text(result)
    if "true_label" in result:
        answer += f", true label {label_text(result['true_label'])}"
    lines = [answer, *doubts_of(result)]
    for text in texts:
        if text.added and (named := text.strongest_first(text.added)[:top]):
            target = label_text(result["target"])
            reasons = ", ".join(f"{signed(added)} {visible(word)}" for word, added in named)
            lines.append(f"why {target} {signed(sum(text.added))}: {reasons}")
        if text.truncated:
            lines.append(f"(tokens cut off at the end and not read: {text.truncated:,})")
    if totals is not None:
        meaning = "what an empty text has, and what no word added"
        lines.append(f"besides {signed(totals.besides)}: {meaning}")
    if totals is not None and totals.are_hops_behind:
        lines.append(f"(hops added {signed(totals.by_hops)} of {signed(totals.together)})")
    else:
        for text in texts:
            words = [f"{visible(word)} {percent(share)}" for word, share in text.top_words(0, top)]
            lines += [f"reads {', '.join(words) or NONE_STANDS_OUT}"] if text.words else []
    if nearest := result.get("nearest"):
        lines.append(f"nearest training texts: {'; '.join(map(nearest_text, nearest))}")
    return "\n".join(map(visible, lines))
