"""The pieces of a page, each escaped: running text with its weights, hop chooser, scores, spans.

A word carries its weight in every view as custom properties, `--0` for all hops together and `--3`
for hop 3, and the style sheet picks the one whose radio button is checked. So the text stands in
the page once, and the chooser needs no script.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .readings import Reading, Result, visible

# What is shown of a text, and how many weights of single hops of all texts together: a page with
# all of it stays below 20 MB.
MAX_WORDS = 100_000
MAX_CHARACTERS = 1_000_000
MAX_HOP_WEIGHTS = 500_000

LEAST_SHARE = 0.04  # of the strongest word: what is less could not be told from no colour
STRIP_CELLS = 48
TOP_WORDS, LEAST_TOP_WEIGHT = 4, 0.05
TOP_SPANS = 5
MOST_LABELS = 10

Marks = list[tuple[int, float]]


@dataclass
class Allowance:
    """How many weights of single hops a page still has room for."""

    left: int

    def takes(self, count: int) -> bool:
        """Reserve room for so many weights; say whether there was enough."""
        fits = count <= self.left
        self.left -= count * fits
        return fits


def escaped(text: object) -> str:
    """Return a text as HTML that shows it, in an element or in a quoted attribute."""
    return html.escape(visible(text))


def joined(*parts: str) -> str:
    """Return the parts, each on lines of its own."""
    return "\n".join(parts)


def percent(share: float) -> str:
    """Return a share as a reader wants it: exact where it is small, never more than two digits."""
    return f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}"


def texts_with_views(readings: Sequence[Reading], name: str, allowance: Allowance) -> str:
    """Show the one or two texts of a result, and below them a line for each view.

    Args:
        readings: Of the texts.
        name: Of the group of radio buttons; no other group of the document may have it.
        allowance: What the page has room for. Without room for the hops nothing can be chosen.
    """
    marks = [_marks(reading) for reading in readings]
    has_hops = allowance.takes(sum(len(hop) for side in marks for hop in side[1:]))
    sections = []
    for number, (reading, side) in enumerate(zip(readings, marks, strict=True)):
        heading = [f"<h4>{('First', 'Second')[number]} text</h4>"] if len(readings) > 1 else []
        shown = side if has_hops else side[:1]
        notes = [f'<p class="note">{note}</p>' for note in _notes(reading, has_hops)]
        parts = [*heading, _running_text(reading, shown), *notes]
        sections.append(joined("<section>", *parts, "</section>"))
    texts = joined('<div class="texts">', *sections, "</div>")
    if not any(reading.words for reading in readings):
        return texts  # there is nothing to choose
    lines = ["<legend>What each hop reads</legend>", *_lines(readings, name if has_hops else None)]
    return joined(texts, '<fieldset class="views">', *lines, "</fieldset>")


def _marks(reading: Reading) -> list[Marks]:
    """Return for every view the words that are coloured in it, each with its share."""
    views = map(reading.shares, range(len(reading.views)))
    return [
        [(place, share) for place, share in enumerate(view[:MAX_WORDS]) if share >= LEAST_SHARE]
        for view in views
    ]


def _end(reading: Reading) -> int:
    """Return the position up to which a text is shown."""
    words = reading.words
    end = len(reading.text) if len(words) <= MAX_WORDS else words[MAX_WORDS - 1][1]
    return min(end, MAX_CHARACTERS)


def _running_text(reading: Reading, marks: Sequence[Marks]) -> str:
    """Return the text with its own spacing, each word with its weights."""
    styles: dict[int, list[str]] = {}
    for view, marked in enumerate(marks):
        for place, share in marked:
            styles.setdefault(place, []).append(f"--{view}:{share:.2f}".replace(":0.", ":."))
    pieces, done, shown_end = [], 0, _end(reading)
    for place in sorted(styles):
        start, end = reading.words[place]
        if end > shown_end:
            break
        style, title = ";".join(styles[place]), _title(reading, place)
        word = html.escape(reading.piece(start, end))
        pieces.append(html.escape(reading.piece(done, start)))
        pieces.append(f'<span style="{style}" title="{title}">{word}</span>')
        done = end
    pieces.append(html.escape(reading.piece(done, shown_end)))
    return f'<p class="words" dir="auto">{"".join(pieces)}</p>'


def _title(reading: Reading, place: int) -> str:
    """Return what pointing at a word tells."""
    overall, *hops = (view[place] for view in reading.views)
    if len(hops) < 2:
        return percent(overall)
    strongest = max(range(len(hops)), key=hops.__getitem__)
    return f"{percent(overall)}; hop {strongest + 1}: {percent(hops[strongest])}"


def _notes(reading: Reading, has_hops: bool) -> Iterator[str]:
    """Yield what a reader must know about a text: what was not read, what is not shown."""
    if not reading.text:
        yield "The text is empty."
    elif not reading.words:
        yield "The text holds no words."
    if reading.truncated:
        yield f"Tokens cut off at the end and not read: {reading.truncated:,}."
    if (end := _end(reading)) < len(reading.text):
        yield f"Only the first {end:,} of {len(reading.text):,} characters are shown."
    if not has_hops:
        yield (
            "The page has no room for every hop of so long a text: the colours are those of all "
            "hops together, and each hop has its line below."
        )


def _lines(readings: Sequence[Reading], name: str | None) -> Iterator[str]:
    """Yield one line for each view: where in the text it reads, and its strongest words."""
    for view in range(len(readings[0].views)):
        label = f"Hop {view}" if view else "All hops"
        sides = "".join(
            f'<span class="side"><span class="strip" aria-hidden="true">{_strip(reading, view)}'
            f'</span><span class="top">{_top_words(reading, view)}</span></span>'
            for reading in readings
        )
        if name is None:
            yield f'<p class="view"><span class="name">{label}</span>{sides}</p>'
            continue
        checked = "" if view else " checked"
        button = f'<input type="radio" name="{name}" value="{view}"{checked}>'
        yield f'<label class="view"><span class="name">{button}{label}</span>{sides}</label>'


def _strip(reading: Reading, view: int) -> str:
    """Draw where in a text the weights of a view lie, as a row of small bars."""
    weights = reading.views[view]
    cells = [0.0] * min(STRIP_CELLS, len(weights))
    for place, weight in enumerate(weights):
        cells[place * len(cells) // len(weights)] += weight
    strongest = max(cells, default=0.0) or 1.0
    heights = (f"{cell / strongest:.2f}" for cell in cells)
    return "".join(f'<i style="--w:{height}"></i>' for height in heights)


def _top_words(reading: Reading, view: int) -> str:
    """Name the strongest words of a view, with their share of its attention."""
    strongest = reading.strongest(view, TOP_WORDS)
    told = [item for item in strongest if item[1] >= LEAST_TOP_WEIGHT] or strongest[:1]
    return " ".join(
        f"<b><bdi>{html.escape(shortened(word))}</bdi> {percent(weight)}</b>"
        for word, weight in told
    )


def scores_table(result: Result) -> str:
    """Show what the model thinks of each label: a table with bars."""
    scores: dict[Any, float] = dict(result.get("scores") or {result["label"]: result["score"]})
    are_shares = all(0 <= score <= 1 for score in scores.values())
    are_probabilities = are_shares and len(scores) > 1 and abs(sum(scores.values()) - 1) < 1e-3
    names = list(scores)
    if len(names) > MOST_LABELS:
        names = sorted(names, key=lambda name: -scores[name])[:MOST_LABELS]
    rows = []
    for name in names:
        score = scores[name]
        row = ' class="predicted"' if name == result["label"] else ""
        bar = f'<i style="--w:{score:.3f}"></i>' if are_shares and len(scores) > 1 else ""
        number = f"{score:.1%}" if are_probabilities else f"{score:.3f}"
        rows.append(
            f'<tr{row}><th scope="row"><bdi>{escaped(name)}</bdi></th>'
            f'<td class="bar">{bar}</td><td>{number}</td></tr>'
        )
    left_out = len(scores) - len(names)
    note = [f'<p class="note">and {left_out:,} labels with less</p>'] if left_out else []
    title = "Probabilities" if are_probabilities else "Scores"
    return joined(f"<h4>{title}</h4>", '<table class="scores">', *rows, "</table>", *note)


def spans_list(reading: Reading, title: str) -> str:
    """Show the most attended spans of a text, each with its share of the attention."""
    if not reading.spans:
        return ""
    items = [
        f"<li><bdi>{escaped(shortened(span['text']))}</bdi> <b>{percent(span['weight'])}</b></li>"
        for span in reading.spans[:TOP_SPANS]
    ]
    return joined(f"<h4>{title}</h4>", '<ol class="spans">', *items, "</ol>")


def overlap_note(readings: Sequence[Reading]) -> str:
    """Say how much the hops of each text overlap."""
    overlaps = [reading.overlap for reading in readings]
    has_words = any(reading.words for reading in readings)
    if not has_words or len(readings[0].views) < 3 or None in overlaps:
        return ""
    numbers = " and ".join(f"<b>{overlap:.2f}</b>" for overlap in overlaps)
    return (
        f'<h4>Overlap of the hops</h4>\n<p class="overlap">{numbers} '
        "<small>0: no word in common, 1: all read the same one</small></p>"
    )


def shortened(text: str, most: int = 60) -> str:
    """Return a text on one line, and not endless."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


__all__ = [
    "MAX_CHARACTERS",
    "MAX_HOP_WEIGHTS",
    "MAX_WORDS",
    "Allowance",
    "escaped",
    "joined",
    "overlap_note",
    "scores_table",
    "shortened",
    "spans_list",
    "texts_with_views",
]
