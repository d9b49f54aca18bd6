"""Attention as HTML: a stand-alone page, the same as a piece of another page, models side by side.

Texts, labels and titles are shown and never obeyed: the page runs no script, loads nothing and is
escaped throughout, and what cannot be seen appears as its code point.

A word carries its weight in every view as custom properties, `--0` for all hops together and `--3`
for hop 3, and the style sheet picks the one whose radio button is checked. So the text stands in
the page once, and the chooser needs no script.
"""

import html
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..utils.tables import Table
from ..utils.text import visible
from .attended_text import (
    READS_EVENLY,
    AttendedText,
    Result,
    label_text,
    parse_results,
    scale_ends,
    shortened,
)

FRAME = Path(__file__).with_name("page.html")
STYLE_SHEET = Path(__file__).with_name("page.css")

# What is shown of a text, and how many weights of single hops the texts of a page share.
MAX_WORDS = 100_000
MAX_HOP_WEIGHTS = 500_000

STRIP_CELLS = 48
TOP_WORDS, MIN_TOP_WEIGHT = 4, 0.05
TOP_SPANS = 5
MAX_LABELS = 10
MIN_CONTENTS = 4  # texts from which on a page has a table of contents

Parsed = tuple[Result, list[AttendedText]]

_LEAD = (
    "A coloured word gets more than an even share of the attention. Choose a hop to see what it "
    'reads alone<span class="pointing">; point at a coloured word for its share</span>.'
)
_LIMITS = "Attention shows what was read, not why the answer is what it is."


def attention_html(results: Result | Sequence[Result], title: str = "Attention") -> str:
    """Show where a model looked: one stand-alone HTML page, without scripts.

    Each text is coloured by all hops together (summed and renormalised to 1, section 2.3 of the
    paper); below it every hop has a line with its strongest words, and choosing the line colours
    the text by that hop. Only words with more than an even share of the attention have a colour, so
    that a text that is read evenly looks pale, and the page says so. Beside it are the prediction,
    the scores of the labels, the most attended spans and the cosine between hops. The page says
    what it leaves out of a long text.

    Args:
        results: What the `self-attention` pipeline returned for one input or for several. A
            `true_label` that was added to a result is compared with the prediction.
        title: The heading.

    Returns:
        The page; it can be written as UTF-8 whatever the texts hold.

    Raises:
        ValueError: If a result is not from that pipeline, or is not finite.
    """
    parsed = parse_results(results)
    contents = [_contents(parsed)] if len(parsed) >= MIN_CONTENTS else []
    return _page([*contents, *_articles(parsed, "text")], title, parsed)


def attention_fragment(results: Result | Sequence[Result]) -> str:
    """Show the same as `attention_html` as a piece of another page, such as a notebook.

    It is a `section` element with its style sheet, which styles nothing outside it. The names in it
    are new in every call, so that several pieces in one document do not disturb each other.
    """
    parsed = parse_results(results)
    body = "\n".join(_articles(parsed, f"a{uuid.uuid4().hex[:12]}"))
    return fragment(body, _style(parsed), f"{_scale(parsed)} {_LIMITS}")


def comparison_html(
    results: Mapping[str, Result | Sequence[Result]], title: str = "Attention compared"
) -> str:
    """Show where several models looked in the same texts: one stand-alone page, without scripts.

    Args:
        results: By the name of each model, what the `self-attention` pipeline returned for the
            texts, in the same order. With a model trained with the penalty and one trained without
            this is Figure 4 of the paper.
        title: The heading.

    Raises:
        ValueError: If there are fewer than two models, their texts differ, or a result is not from
            that pipeline.
    """
    if len(results) < 2:
        raise ValueError(f"{len(results)} model(s) cannot be compared; give two or more")
    parsed = {name: parse_results(own) for name, own in results.items()}
    texts_of = {name: [result["text"] for result, _ in own] for name, own in parsed.items()}
    first, *others = texts_of
    for name in others:
        if texts_of[name] != texts_of[first]:
            raise ValueError(
                f"the texts of {name!r} differ from those of {first!r}; give the results of all "
                "models for the same texts in the same order"
            )
    room = MAX_HOP_WEIGHTS // max(1, len(parsed) * len(texts_of[first]))
    groups = []
    for number, row in enumerate(zip(*parsed.values(), strict=True), start=1):
        groups += [f'<section class="group" id="text-{number}">', f"<h2>Text {number}</h2>"]
        groups.append('<div class="models">')
        for place, (name, one) in enumerate(zip(parsed, row, strict=True), start=1):
            heading = f"<h3><bdi>{escaped(name)}</bdi></h3>\n<p>{_prediction(one[0])}</p>"
            groups.append(_article(one, heading, f"text-{number}-{place}", room))
        groups.append("</div>\n</section>")
    return _page(groups, title, [*chain(*parsed.values())])


def tables_html(
    tables: Sequence[Table], examples: Mapping[str, Sequence[Result]], title: str
) -> str:
    """Show tables, and below them results under headings: one stand-alone page, without scripts.

    Args:
        tables: What was measured.
        examples: By heading, what the `self-attention` pipeline returned, as for `attention_html`.
        title: The heading of the page.
    """
    parts = list(map(_table, tables))
    parsed = {heading: parse_results(results) for heading, results in examples.items()}
    for number, (heading, some) in enumerate(parsed.items(), start=1):
        if some:
            parts += [f'<h2 class="part">{escaped(heading)}</h2>', *_articles(some, f"p{number}")]
    return _page(parts, title, [*chain(*parsed.values())])


def _table(table: Table) -> str:
    """Return a table; its shares colour the cells."""
    heads = "".join(f'<th scope="col"><bdi>{escaped(head)}</bdi></th>' for head in table.heads)
    lines = [f'<section class="table"><h2>{escaped(table.title)}</h2>\n<table>']
    lines.append(f"<thead><tr>{heads}</tr></thead>\n<tbody>")
    for number, (name, *cells) in enumerate(table.rows):
        styles = [f' style="--w:{w:.3f}"' for w in table.shares[number]] if table.shares else cells
        shown = "".join(
            f"<td{style if table.shares else ''}>{escaped(cell)}</td>"
            for style, cell in zip(styles, cells, strict=True)
        )
        lines.append(f'<tr><th scope="row"><bdi>{escaped(name)}</bdi></th>{shown}</tr>')
    return "\n".join([*lines, "</tbody>\n</table>\n</section>"])


def _page(parts: Sequence[str], title: str, parsed: Sequence[Parsed]) -> str:
    """Put pieces of HTML into the frame of a page."""
    texts = {"lead": _LEAD, "scale": _scale(parsed), "limits": _LIMITS}
    return framed(parts, title, style=_style(parsed), **texts)


def framed(
    parts: Sequence[str], title: str, *, lead: str, limits: str, style: str, scale: str = ""
) -> str:
    """Return a stand-alone page; all but the title is HTML."""
    frame, texts = FRAME.read_text(encoding="utf-8"), {"lead": lead, "limits": limits}
    body = "\n".join(parts)
    return frame.format(title=escaped(title), body=body, style=style, scale=scale, **texts)


def fragment(body: str, style: str, footer: str) -> str:
    """Return a piece of another page; all is HTML."""
    return (
        f'<section class="sase-attention">\n<style>\n{style}\n</style>\n{body}\n'
        f"<footer>{footer}</footer>\n</section>\n"
    )


def style_sheet() -> str:
    """Return the rules that all pages share; each begins with the class of a page."""
    return STYLE_SHEET.read_text(encoding="utf-8").strip()


def _style(parsed: Sequence[Parsed]) -> str:
    """Return the style sheet, with a rule for each hop that can be chosen."""
    num_views = max((len(texts[0].views) for _, texts in parsed), default=0)
    rules = "\n".join(
        f'.sase-attention .result:has(input[value="{view}"]:checked) .words span '
        f"{{ --w: var(--{view}, 0); }}"
        for view in range(1, num_views)
    )
    return f"{style_sheet()}\n{rules}"


def _scale(parsed: Sequence[Parsed]) -> str:
    """Show the colours from the weakest to the strongest, and what the two mean."""
    least, most = scale_ends(text for _, texts in parsed for text in texts)
    colours = "".join(f'<i style="--w:{strength}"></i>' for strength in (0, 0.25, 0.5, 0.75, 1))
    return f'<p class="scale"><span>{least}</span>{colours}<span>{most}</span></p>'


def escaped(text: object) -> str:
    """Return a text as HTML that shows it, in an element or in a quoted attribute."""
    return html.escape(visible(text))


def percent(share: float) -> str:
    """Return a share with one digit after the point if it is small."""
    return f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}"


def _contents(parsed: Sequence[Parsed]) -> str:
    """List the texts with their predictions, each linked to its article, folded at first."""
    rows = []
    for number, (result, texts) in enumerate(parsed, start=1):
        begin = " / ".join(escaped(shortened(text.text)) for text in texts)
        known, verdict = _true_label(result)
        known = ", ".join(filter(None, (known, verdict.lower())))
        rows.append(
            f'<tr><td>{number}</td><td><a href="#text-{number}" dir="auto">{begin or "(empty)"}</a>'
            f"</td><td><bdi>{escaped(result['label'])}</bdi></td><td>{known}</td></tr>\n"
        )
    heads = ("No.", "Text", "Predicted", "True label")
    return (
        f'<nav aria-label="Texts">\n<details>\n<summary>{len(parsed):,} texts</summary>\n'
        "<table>\n<thead><tr>"
        + "".join(f'<th scope="col">{head}</th>' for head in heads)
        + f"</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n</table>\n</details>\n</nav>"
    )


def _articles(parsed: Sequence[Parsed], prefix: str) -> list[str]:
    """Show each result in an article of its own."""
    articles = []
    for number, one in enumerate(parsed, start=1):
        count = f'<span class="number">{number}</span> ' if len(parsed) > 1 else ""
        heading = f"<h2>{count}{_prediction(one[0])}</h2>"
        room = MAX_HOP_WEIGHTS // len(parsed)
        articles.append(_article(one, heading, f"{prefix}-{number}", room))
    return articles or ['<p class="note">There are no texts.</p>']


def _article(parsed: Parsed, heading: str, name: str, room: int) -> str:
    """Show one result: its texts with their hop chooser, and the facts about it beside them.

    The heading is HTML, and the name is unique in the document. If the hops have more weights than
    there is room for, no hop can be chosen.
    """
    result, texts = parsed
    kind, titles = "result", ["Most attended"]
    if len(texts) > 1:
        kind, titles = "result pair", ["Most attended in the first", "Most attended in the second"]
    facts = [_scores_table(result), *map(_spans_list, texts, titles), _cosine_note(texts)]
    return "\n".join(
        [
            f'<article class="{kind}" id="{name}">\n<header>',
            f"{heading}{_verdict(result)}",
            '</header>\n<div class="reading">',
            _texts_with_views(texts, name, room),
            "</div>\n<aside>",
            *(f"<div>\n{fact}\n</div>" for fact in facts if fact),
            "</aside>\n</article>",
        ]
    )


def _prediction(result: Result) -> str:
    """Name the predicted label and its score."""
    score, scores = result["score"], result.get("scores", {})
    number = f"{score:.1%}" if len(scores) > 1 and 0 <= score <= 1 else f"{score:.3f}"
    label = f"<bdi>{escaped(result['label'])}</bdi>"
    return f'<small>Predicted</small> {label} <span class="score">{number}</span>'


def _true_label(result: Result) -> tuple[str, str]:
    """Return the true label, if it is known, and "Right" or "Wrong" if it is one of several."""
    if "true_label" not in result:
        return "", ""
    known: Any = result["true_label"]
    label = f"<bdi>{escaped(label_text(known))}</bdi>"
    if isinstance(known, list | tuple) or len(result.get("scores", "ab")) < 2:
        return label, ""
    return label, "Right" if str(known) == str(result["label"]) else "Wrong"


def _verdict(result: Result) -> str:
    """Say in words whether the prediction is right, if the true label is known."""
    label, word = _true_label(result)
    if word:
        return f'<p class="verdict {word.lower()}"><b>{word}</b>: the true label is {label}</p>'
    return label and f'<p class="verdict">True: {label}</p>'


def _texts_with_views(texts: Sequence[AttendedText], name: str, room: int) -> str:
    """Show the one or two texts of a result, and below them a line for each view."""
    hop_strengths = (
        strength
        for text in texts
        for view in range(1, len(text.views))
        for strength in text.strengths(view)[:MAX_WORDS]
    )
    has_hops = sum(strength > 0 for strength in hop_strengths) <= room
    shown = ['<div class="texts">']
    for number, text in enumerate(texts):
        heading = [f"<h4>{('First', 'Second')[number]} text</h4>"] if len(texts) > 1 else []
        notes = [f'<p class="note">{note}</p>' for note in _notes(text, has_hops)]
        shown += ["<section>", *heading, _running_text(text, has_hops), *notes, "</section>"]
    shown.append("</div>")
    if any(text.words for text in texts):  # otherwise there is nothing to choose
        shown += ['<fieldset class="views">', "<legend>What each hop reads</legend>"]
        shown += [*_lines(texts, name if has_hops else None), "</fieldset>"]
    return "\n".join(shown)


def _end(text: AttendedText) -> int:
    """Return the position up to which a text is shown."""
    return len(text.text) if len(text.words) <= MAX_WORDS else text.words[MAX_WORDS - 1][1]


def _running_text(text: AttendedText, has_hops: bool) -> str:
    """Return the text with its own spacing, each coloured word with its strengths."""
    views = [text.strengths(view) for view in range(len(text.views) if has_hops else 1)]
    pieces, done = [], 0
    for place, (start, end) in enumerate(text.words[:MAX_WORDS]):
        own = [f"--{view}:{strengths[place]}" for view, strengths in enumerate(views)]
        own = [one for one in own if not one.endswith(":0.0")]
        if not own:
            continue
        style, title = ";".join(own).replace(":0.", ":."), _word_title(text, place)
        word = html.escape(text.part(start, end))
        pieces.append(html.escape(text.part(done, start)))
        pieces.append(f'<span style="{style}" title="{title}">{word}</span>')
        done = end
    pieces.append(html.escape(text.part(done, _end(text))))
    return f'<p class="words" dir="auto">{"".join(pieces)}</p>'


def _word_title(text: AttendedText, place: int) -> str:
    """Return what a reader sees who points at a word."""
    overall, *hops = (view[place] for view in text.views)
    if len(hops) < 2:
        return percent(overall)
    strongest = max(range(len(hops)), key=hops.__getitem__)
    return f"{percent(overall)}; hop {strongest + 1}: {percent(hops[strongest])}"


def _notes(text: AttendedText, has_hops: bool) -> Iterator[str]:
    """Yield what was not read of a text, and what is not shown."""
    if not text.words:
        yield "The text holds no words." if text.text else "The text is empty."
    if text.reads_evenly(0):
        yield f"The model {READS_EVENLY} (all hops together)."
    if text.truncated:
        yield f"Tokens cut off at the end and not read: {text.truncated:,}."
    if (end := _end(text)) < len(text.text):
        yield f"Only the first {end:,} of {len(text.text):,} characters are shown."
    if not has_hops:
        yield (
            "The page has no room for every hop of so long a text: the colours are those of all "
            "hops together, and each hop has its line below."
        )


def _lines(texts: Sequence[AttendedText], name: str | None) -> Iterator[str]:
    """Yield one line for each view: where in the text it reads, and its strongest words."""
    for view in range(len(texts[0].views)):
        label = f"Hop {view}" if view else "All hops"
        tag = "p" if name is None else "label"
        if name is not None:
            checked = "" if view else " checked"
            label = f'<input type="radio" name="{name}" value="{view}"{checked}>{label}'
        sides = "".join(_side(text, view) for text in texts)
        yield f'<{tag} class="view"><span class="name">{label}</span>{sides}</{tag}>'


def _side(text: AttendedText, view: int) -> str:
    """Draw how strong the words of a view are, as small bars, and name the strongest."""
    strengths = text.strengths(view)
    cells = [0.0] * min(STRIP_CELLS, len(strengths))
    for place, strength in enumerate(strengths):
        cell = place * len(cells) // len(strengths)
        cells[cell] = max(cells[cell], strength)
    bars = "".join(f'<i style="--w:{cell}"></i>' for cell in cells)
    top = text.top_words(view, TOP_WORDS)
    words = " ".join(
        f"<b><bdi>{html.escape(shortened(word))}</bdi> {percent(weight)}</b>"
        for word, weight in [item for item in top if item[1] >= MIN_TOP_WEIGHT] or top[:1]
    )
    kind = "top"
    if text.reads_evenly(view):
        words, kind = READS_EVENLY, "top even"
    strip = f'<span class="strip" aria-hidden="true">{bars}</span>'
    return f'<span class="side">{strip}<span class="{kind}">{words}</span></span>'


def _scores_table(result: Result) -> str:
    """Show the score of each label, of very many the best: a table with bars."""
    scores: dict[Any, float] = dict(result.get("scores") or {result["label"]: result["score"]})
    are_shares = len(scores) > 1 and all(0 <= score <= 1 for score in scores.values())
    are_probabilities = are_shares and abs(sum(scores.values()) - 1) < 1e-3
    names = list(scores)
    if left_out := max(len(names) - MAX_LABELS, 0):
        names = sorted(names, key=lambda name: -scores[name])[:MAX_LABELS]
    title = "Probabilities" if are_probabilities else "Scores"
    lines = [f"<h4>{title}</h4>", '<table class="scores">']
    for name in names:
        score = scores[name]
        row = ' class="predicted"' if name == result["label"] else ""
        bar = f'<i style="--w:{score:.3f}"></i>' if are_shares else ""
        number = f"{score:.1%}" if are_probabilities else f"{score:.3f}"
        lines.append(
            f'<tr{row}><th scope="row"><bdi>{escaped(name)}</bdi></th>'
            f'<td class="bar">{bar}</td><td>{number}</td></tr>'
        )
    lines.append("</table>")
    if left_out:
        lines.append(f'<p class="note">and {left_out:,} labels with lower scores</p>')
    return "\n".join(lines)


def _spans_list(text: AttendedText, title: str) -> str:
    """Show the most attended spans of a text, each with its share of the attention."""
    if text.spans is None or len(text.words) < 2:
        return ""
    if not text.spans:
        is_even = text.reads_evenly(0)
        reason = "all words are read about equally" if is_even else "no word stands out"
        return f"<h4>{title}</h4>\n<p>none: {reason}</p>"
    items = [
        f"<li><bdi>{escaped(shortened(span['text']))}</bdi> <b>{percent(span['weight'])}</b></li>"
        for span in text.spans[:TOP_SPANS]
    ]
    return "\n".join([f"<h4>{title}</h4>", '<ol class="spans">', *items, "</ol>"])


def _cosine_note(texts: Sequence[AttendedText]) -> str:
    """Say how alike the hops of each text are."""
    cosines = [text.cosine for text in texts]
    has_words = any(text.words for text in texts)
    if not has_words or len(texts[0].views) < 3 or None in cosines:
        return ""
    numbers = " and ".join(f"<b>{cosine:.2f}</b>" for cosine in cosines)
    return (
        f'<p class="cosine">Cosine between hops: {numbers} '
        "<small>(1: all hops read the same; 0: they share no word)</small></p>"
    )
