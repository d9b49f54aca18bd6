"""Attention made visible: a page for the browser and a line for the terminal.

Both take what the `self-attention` pipeline returns. Whatever stands in a text, a label or a title
is shown and never obeyed: the page runs no script, loads nothing and is escaped throughout, and
control and format characters, which are invisible or turn the reading direction, appear as their
code points.
"""

import html
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]

MAX_CHARACTERS = 4000

# The joiners hold emoji and letters of some scripts together; line breaks and tabs lay text out.
_HARMLESS = frozenset("\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# Colour, line and tooltip tell the same weight, for readers who do not see the colour.
_STYLE = """
:root { color-scheme: light dark; --heat: 235 70 60; }
body { font: 1rem/1.7 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid #8888; padding-top: 1rem; }
h2 { font-size: 1.1rem; }
p.text { white-space: pre-wrap; overflow-wrap: anywhere; }
p.note { opacity: 0.75; font-size: 0.9rem; }
span { background: rgb(var(--heat) / var(--w)); border-radius: 0.2em;
  box-shadow: inset 0 calc(var(--w) * -0.15em) currentColor; print-color-adjust: exact; }
summary { cursor: pointer; }
@media (prefers-color-scheme: dark) { :root { --heat: 190 40 30; } }
""".strip()

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="note">The redder a word and the thicker the line under it, the more attention it gets, \
measured against the strongest word of the same line; point at a word for its weight.</p>
{articles}
</body>
</html>
"""


def attention_html(results: Result | Sequence[Result], title: str = "Attention") -> str:
    """Show where a model looked: one stand-alone HTML page, without scripts.

    Each text is shown with all hops together (summed and renormalised to 1, section 2.3 of the
    paper) and, unfolded, hop by hop. Texts are shown up to `MAX_CHARACTERS`.

    Args:
        results: What the `self-attention` pipeline returned for one input or for several. A
            `true_label` that was added to a result is shown beside the prediction.
        title: The heading.

    Returns:
        The page; it can be written as UTF-8 whatever the texts hold.

    Raises:
        ValueError: If a result is not one of that pipeline.
    """
    if isinstance(results, Mapping):
        results = [results]
    articles = "\n".join(_article(result) for result in results)
    return _PAGE.format(title=_escaped(title), style=_STYLE, articles=articles)


def attention_text(result: Result, top: int = 5) -> str:
    """Name the words of a text, or of each text of a pair, that got the most attention.

    Args:
        result: What the `self-attention` pipeline returned for one input.
        top: How many words.

    Returns:
        A line for each text: the words and their shares of the attention of all hops, most first.

    Raises:
        ValueError: If the result is not one of that pipeline.
    """
    lines = []
    for reading in _readings(result):
        words = zip(reading["tokens"], reading["overall"], strict=True)
        strongest = sorted(words, key=lambda word: -word[1])[:top]
        lines.append(", ".join(f"{_visible(word)} {weight:.0%}" for word, weight in strongest))
    return "\n".join(lines)


def _readings(result: Result) -> list[dict[str, Any]]:
    """Return text, tokens, offsets and weights of the one or two texts of a result."""
    names = ("text", "tokens", "offsets", "overall", "attention")
    needed = ("label", "score", *names)
    missing = [name for name in needed if name not in result]
    if missing:
        raise ValueError(
            f"a result of the self-attention pipeline must have {', '.join(needed)}; "
            f"{', '.join(missing)} missing. Make one with pipeline('self-attention', ...)"
        )
    if isinstance(result["text"], str):
        return [{name: result[name] for name in names}]
    return [{name: result[name][side] for name in names} for side in range(len(result["text"]))]


def _article(result: Result) -> str:
    """Show one result: what was predicted, and each text with its attention."""
    readings = _readings(result)
    heading = f"{_escaped(result['label'])} ({result['score']:.3f})"
    if "true_label" in result:
        heading += f", true label {_escaped(result['true_label'])}"
    parts = [f"<h2>{heading}</h2>"]
    for reading in readings:
        parts.extend(_views(reading))
    return "<article>\n" + "\n".join(parts) + "\n</article>"


def _views(reading: Mapping[str, Any]) -> Iterator[str]:
    """Yield the overall view of a text, then its hops, folded away."""
    text, offsets = reading["text"], reading["offsets"]
    yield _paragraph(text, offsets, reading["overall"])
    if not text:
        yield '<p class="note">The text is empty.</p>'
    if len(text) > MAX_CHARACTERS:
        shown = f"the first {MAX_CHARACTERS:,} of {len(text):,} characters"
        yield f'<p class="note">Only {shown} are shown.</p>'
    hops = reading["attention"]
    yield f"<details>\n<summary>Hop by hop ({len(hops)})</summary>"
    for number, weights in enumerate(hops, start=1):
        yield f'<p class="note">Hop {number}</p>'
        yield _paragraph(text, offsets, weights)
    yield "</details>"


def _paragraph(text: str, offsets: Sequence[Sequence[int]], weights: Sequence[float]) -> str:
    """Return the running text, spacing kept, with every token coloured by its weight."""
    strongest = max(weights, default=0.0) or 1.0
    text = text[:MAX_CHARACTERS]
    pieces, done = [], 0
    for (start, end), weight in zip(offsets, weights, strict=True):
        # Parts of a word that share an offset: the first one keeps it.
        start = max(start, done)
        if start >= min(end, len(text)):
            continue
        word = _escaped(text[start:end])
        style = f'style="--w:{weight / strongest:.2f}" title="{weight:.3f}"'
        pieces += [_escaped(text[done:start]), f"<span {style}>{word}</span>"]
        done = end
    return f'<p class="text" dir="auto">{"".join(pieces)}{_escaped(text[done:])}</p>'


def _escaped(text: object) -> str:
    """Return the text as HTML that shows it, in an element or in a quoted attribute."""
    return html.escape(_visible(str(text)))


def _visible(text: str) -> str:
    """Return the text with its code point for every character that cannot be seen."""
    return "".join(
        f"[U+{ord(character):04X}]"
        if unicodedata.category(character) in _UNSEEN_CATEGORIES and character not in _HARMLESS
        else character
        for character in text
    )
