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
from pathlib import Path
from typing import Any

from .attended_text import AttendedText, Result, label_text, parse_results, shortened, visible

STYLE_SHEET = Path(__file__).with_name("page.css")

# What is shown of a text, and how many weights of single hops the texts of a page share.
MAX_WORDS = 100_000
MAX_CHARACTERS = 1_000_000
MAX_HOP_WEIGHTS = 500_000

MIN_SHARE = 0.04  # of the strongest word: the colour of less could not be seen
STRIP_CELLS = 48
TOP_WORDS, MIN_TOP_WEIGHT = 4, 0.05
TOP_SPANS = 5
MAX_LABELS = 10
MIN_CONTENTS = 4  # texts from which on a page has a table of contents

Parsed = tuple[Result, list[AttendedText]]

_HOW_TO_READ = (
    "The stronger its colour and the thicker the line under it, the more attention a word gets, "
    "measured against the strongest word of the same view. Choose a hop to see what it reads "
    'alone<span class="pointing">; point at a word for its share</span>.'
)
_LIMITS = "Attention shows what was read, not why the answer is what it is."

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
html {{ background: light-dark(#f6f4ef, #16171a); color-scheme: light dark; }}
@media print {{ html {{ background: none; color-scheme: light; }} }}
body {{ margin: 0; }}
{style}
</style>
</head>
<body>
<main class="sase-attention page">
<header>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{scale}
</header>
{body}
<footer>{limits}</footer>
</main>
</body>
</html>
"""

_FRAGMENT = """\
<section class="sase-attention">
<style>
{style}
</style>
{body}
<footer>{scale} {limits}</footer>
</section>
"""

_SCALE = (
    '<p class="scale"><span>less</span>'
    + "".join(f'<i style="--w:{share}"></i>' for share in (0.05, 0.25, 0.5, 0.75, 1))
    + "<span>more attention</span></p>"
)


def attention_html(results: Result | Sequence[Result], title: str = "Attention") -> str:
    """Show where a model looked: one stand-alone HTML page, without scripts.

    Each text is coloured by all hops together (summed and renormalised to 1, section 2.3 of the
    paper); below it every hop has a line with its strongest words, and choosing the line colours
    the text by that hop. Beside it are the prediction, the scores of the labels, the most attended
    spans and the overlap of the hops. The page says what it leaves out of a long text.

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
    return _page([*contents, *_articles(parsed, "text")], title, _num_views(parsed))


def attention_fragment(results: Result | Sequence[Result]) -> str:
    """Show the same as `attention_html` as a piece of another page, such as a notebook.

    Its styles touch nothing outside it, and the names in it are new in every call, so that several
    pieces in one document do not disturb each other.

    Args:
        results: As for `attention_html`.

    Returns:
        A `section` element with its style sheet.

    Raises:
        ValueError: As for `attention_html`.
    """
    parsed = parse_results(results)
    body = _joined(*_articles(parsed, f"a{uuid.uuid4().hex[:12]}"))
    style = _style(_num_views(parsed))
    return _FRAGMENT.format(style=style, body=body, scale=_SCALE, limits=_LIMITS)


def comparison_html(
    results: Mapping[str, Result | Sequence[Result]], title: str = "Attention compared"
) -> str:
    """Show where several models looked in the same texts: one stand-alone page, without scripts.

    Args:
        results: By the name of each model, what the `self-attention` pipeline returned for the
            texts, in the same order. With a model trained with the penalty and one trained without
            this is Figure 4 of the paper.
        title: The heading.

    Returns:
        The page; as `attention_html`, with a column for each model.

    Raises:
        ValueError: If there are fewer than two models, their texts differ, or a result is not from
            that pipeline.
    """
    if len(results) < 2:
        raise ValueError(f"{len(results)} model(s) cannot be compared; give two or more")
    parsed = {name: parse_results(own) for name, own in results.items()}
    texts_of = {name: [result["text"] for result, _ in own] for name, own in parsed.items()}
    first = next(iter(texts_of.values()))
    for name, own_texts in texts_of.items():
        if own_texts != first:
            raise ValueError(
                f"the texts of {name!r} differ from those of {next(iter(parsed))!r}; give the "
                "results of all models for the same texts in the same order"
            )
    room = MAX_HOP_WEIGHTS // max(1, len(parsed) * len(first))
    groups = []
    for number, row in enumerate(zip(*parsed.values(), strict=True), start=1):
        groups += [f'<section class="group" id="text-{number}">', f"<h2>Text {number}</h2>"]
        groups.append('<div class="models">')
        for place, (name, (result, texts)) in enumerate(zip(parsed, row, strict=True), start=1):
            heading = f"<h3><bdi>{_escaped(name)}</bdi></h3>\n<p>{_prediction(result)}</p>"
            groups.append(_article(result, texts, heading, f"text-{number}-{place}", room))
        groups.append("</div>\n</section>")
    return _page(groups, title, max(map(_num_views, parsed.values())))


def _page(parts: Sequence[str], title: str, num_views: int) -> str:
    """Put pieces of HTML into the frame of a page."""
    return _PAGE.format(
        title=_escaped(title),
        style=_style(num_views),
        lead=_HOW_TO_READ,
        scale=_SCALE,
        body=_joined(*parts),
        limits=_LIMITS,
    )


def _style(num_views: int) -> str:
    """Return the style sheet, with a rule for each view that can be chosen."""
    rules = "\n".join(
        f'.sase-attention .result:has(input[value="{view}"]:checked) .words span '
        f"{{ --w: var(--{view}, 0); }}"
        for view in range(1, num_views)
    )
    return f"{STYLE_SHEET.read_text(encoding='utf-8').strip()}\n{rules}"


def _num_views(parsed: Sequence[Parsed]) -> int:
    """Return the largest number of views of a text."""
    return max((len(texts[0].views) for _, texts in parsed), default=0)


def _escaped(text: object) -> str:
    """Return a text as HTML that shows it, in an element or in a quoted attribute."""
    return html.escape(visible(text))


def _joined(*parts: str) -> str:
    return "\n".join(parts)


def _percent(share: float) -> str:
    """Return a share with one digit after the point if it is small."""
    return f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}"


def _articles(parsed: Sequence[Parsed], prefix: str) -> list[str]:
    """Show each result in an article of its own."""
    if not parsed:
        return ['<p class="note">There are no texts.</p>']
    room = MAX_HOP_WEIGHTS // len(parsed)
    articles = []
    for number, (result, texts) in enumerate(parsed, start=1):
        count = f'<span class="number">{number}</span> ' if len(parsed) > 1 else ""
        heading = f"<h2>{count}{_prediction(result)}</h2>"
        articles.append(_article(result, texts, heading, f"{prefix}-{number}", room))
    return articles


def _article(
    result: Result, texts: Sequence[AttendedText], heading: str, name: str, room: int
) -> str:
    """Show one result: its texts with their hop chooser, and the facts about it beside them.

    Args:
        result: The result.
        texts: Its one or two texts.
        heading: What stands above, as HTML.
        name: Unique in the document.
        room: How many weights of single hops may be shown; with more, no hop can be chosen.
    """
    kind, titles = "result", ["Most attended"]
    if len(texts) > 1:
        kind, titles = "result pair", ["Most attended in the first", "Most attended in the second"]
    facts = [_scores_table(result), *map(_spans_list, texts, titles), _overlap_note(texts)]
    return _joined(
        f'<article class="{kind}" id="{name}">\n<header>',
        f"{heading}{_verdict(result)}",
        '</header>\n<div class="reading">',
        _texts_with_views(texts, name, room),
        "</div>\n<aside>",
        *(f"<div>\n{fact}\n</div>" for fact in facts if fact),
        "</aside>\n</article>",
    )


def _contents(parsed: Sequence[Parsed]) -> str:
    """List the texts with their predictions, each linked to its article."""
    rows = []
    for number, (result, texts) in enumerate(parsed, start=1):
        begin = " / ".join(_escaped(shortened(text.text)) for text in texts)
        known = ""
        if "true_label" in result:
            word = {True: ", right", False: ", wrong", None: ""}[_is_right(result)]
            known = f"<bdi>{_escaped(label_text(result['true_label']))}</bdi>{word}"
        rows.append(
            f'<tr><td>{number}</td><td><a href="#text-{number}" dir="auto">{begin or "(empty)"}</a>'
            f"</td><td><bdi>{_escaped(result['label'])}</bdi></td><td>{known}</td></tr>"
        )
    heads = '<th scope="col">No.</th><th scope="col">Text</th>'
    heads += '<th scope="col">Predicted</th><th scope="col">True label</th>'
    table = _joined(
        f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>", *rows, "</tbody>\n</table>"
    )
    return f'<nav aria-label="Texts">\n{table}\n</nav>'


def _prediction(result: Result) -> str:
    """Name the predicted label and its score."""
    score, scores = result["score"], result.get("scores", {})
    number = f"{score:.1%}" if len(scores) > 1 and 0 <= score <= 1 else f"{score:.3f}"
    label = f"<bdi>{_escaped(result['label'])}</bdi>"
    return f'<small>Predicted</small> {label} <span class="score">{number}</span>'


def _verdict(result: Result) -> str:
    """Say in words whether the prediction is right, if the true label is known."""
    if "true_label" not in result:
        return ""
    label = f"<bdi>{_escaped(label_text(result['true_label']))}</bdi>"
    if (is_right := _is_right(result)) is None:
        return f'<p class="verdict">True: {label}</p>'
    word = "Right" if is_right else "Wrong"
    return f'<p class="verdict {word.lower()}"><b>{word}</b>: the true label is {label}</p>'


def _is_right(result: Result) -> bool | None:
    """Return whether the true label was predicted; None for a regression and for several labels."""
    known: Any = result["true_label"]
    if isinstance(known, list | tuple) or len(result.get("scores", "ab")) < 2:
        return None
    return str(known) == str(result["label"])


def _texts_with_views(texts: Sequence[AttendedText], name: str, room: int) -> str:
    """Show the one or two texts of a result, and below them a line for each view."""
    coloured = [_coloured_words(text) for text in texts]
    has_hops = sum(len(hop) for views in coloured for hop in views[1:]) <= room
    sections = []
    for number, (text, views) in enumerate(zip(texts, coloured, strict=True)):
        heading = [f"<h4>{('First', 'Second')[number]} text</h4>"] if len(texts) > 1 else []
        running = _running_text(text, views if has_hops else views[:1])
        notes = [f'<p class="note">{note}</p>' for note in _notes(text, has_hops)]
        sections.append(_joined("<section>", *heading, running, *notes, "</section>"))
    shown = _joined('<div class="texts">', *sections, "</div>")
    if not any(text.words for text in texts):
        return shown  # there is nothing to choose
    lines = ["<legend>What each hop reads</legend>", *_lines(texts, name if has_hops else None)]
    return _joined(shown, '<fieldset class="views">', *lines, "</fieldset>")


def _coloured_words(text: AttendedText) -> list[list[tuple[int, float]]]:
    """Return for every view the places of the words that are coloured, each with its share."""
    return [
        [
            (place, share)
            for place, share in enumerate(text.relative_weights(view)[:MAX_WORDS])
            if share >= MIN_SHARE
        ]
        for view in range(len(text.views))
    ]


def _end(text: AttendedText) -> int:
    """Return the position up to which a text is shown."""
    words = text.words
    end = len(text.text) if len(words) <= MAX_WORDS else words[MAX_WORDS - 1][1]
    return min(end, MAX_CHARACTERS)


def _running_text(text: AttendedText, views: Sequence[Sequence[tuple[int, float]]]) -> str:
    """Return the text with its own spacing, each word with its weights."""
    styles: dict[int, list[str]] = {}
    for view, words in enumerate(views):
        for place, share in words:
            styles.setdefault(place, []).append(f"--{view}:{share:.2f}".replace(":0.", ":."))
    pieces, done, shown_end = [], 0, _end(text)
    for place in sorted(styles):
        start, end = text.words[place]
        if end > shown_end:
            break
        style, title = ";".join(styles[place]), _word_title(text, place)
        word = html.escape(text.part(start, end))
        pieces.append(html.escape(text.part(done, start)))
        pieces.append(f'<span style="{style}" title="{title}">{word}</span>')
        done = end
    pieces.append(html.escape(text.part(done, shown_end)))
    return f'<p class="words" dir="auto">{"".join(pieces)}</p>'


def _word_title(text: AttendedText, place: int) -> str:
    """Return what a reader sees who points at a word."""
    overall, *hops = (view[place] for view in text.views)
    if len(hops) < 2:
        return _percent(overall)
    strongest = max(range(len(hops)), key=hops.__getitem__)
    return f"{_percent(overall)}; hop {strongest + 1}: {_percent(hops[strongest])}"


def _notes(text: AttendedText, has_hops: bool) -> Iterator[str]:
    """Yield what was not read of a text, and what is not shown."""
    if not text.text:
        yield "The text is empty."
    elif not text.words:
        yield "The text holds no words."
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
        sides = "".join(
            f'<span class="side"><span class="strip" aria-hidden="true">{_strip(text, view)}'
            f'</span><span class="top">{_top_words(text, view)}</span></span>'
            for text in texts
        )
        if name is None:
            yield f'<p class="view"><span class="name">{label}</span>{sides}</p>'
            continue
        checked = "" if view else " checked"
        button = f'<input type="radio" name="{name}" value="{view}"{checked}>'
        yield f'<label class="view"><span class="name">{button}{label}</span>{sides}</label>'


def _strip(text: AttendedText, view: int) -> str:
    """Draw where in a text the weights of a view lie, as a row of small bars."""
    weights = text.views[view]
    cells = [0.0] * min(STRIP_CELLS, len(weights))
    for place, weight in enumerate(weights):
        cells[place * len(cells) // len(weights)] += weight
    strongest = max(cells, default=0.0) or 1.0
    return "".join(f'<i style="--w:{cell / strongest:.2f}"></i>' for cell in cells)


def _top_words(text: AttendedText, view: int) -> str:
    """Name the strongest words of a view, with their share of its attention."""
    top = text.top_words(view, TOP_WORDS)
    named = [item for item in top if item[1] >= MIN_TOP_WEIGHT] or top[:1]
    return " ".join(
        f"<b><bdi>{html.escape(shortened(word))}</bdi> {_percent(weight)}</b>"
        for word, weight in named
    )


def _scores_table(result: Result) -> str:
    """Show the score of each label: a table with bars."""
    scores: dict[Any, float] = dict(result.get("scores") or {result["label"]: result["score"]})
    are_shares = all(0 <= score <= 1 for score in scores.values())
    are_probabilities = are_shares and len(scores) > 1 and abs(sum(scores.values()) - 1) < 1e-3
    names = sorted(scores, key=lambda name: -scores[name])[:MAX_LABELS]
    if len(names) == len(scores):
        names = list(scores)
    rows = []
    for name in names:
        score = scores[name]
        row = ' class="predicted"' if name == result["label"] else ""
        bar = f'<i style="--w:{score:.3f}"></i>' if are_shares and len(scores) > 1 else ""
        number = f"{score:.1%}" if are_probabilities else f"{score:.3f}"
        rows.append(
            f'<tr{row}><th scope="row"><bdi>{_escaped(name)}</bdi></th>'
            f'<td class="bar">{bar}</td><td>{number}</td></tr>'
        )
    left_out = len(scores) - len(names)
    note = [f'<p class="note">and {left_out:,} labels with lower scores</p>'] if left_out else []
    title = "Probabilities" if are_probabilities else "Scores"
    return _joined(f"<h4>{title}</h4>", '<table class="scores">', *rows, "</table>", *note)


def _spans_list(text: AttendedText, title: str) -> str:
    """Show the most attended spans of a text, each with its share of the attention."""
    if not text.spans:
        return ""
    items = [
        f"<li><bdi>{_escaped(shortened(span['text']))}</bdi> <b>{_percent(span['weight'])}</b></li>"
        for span in text.spans[:TOP_SPANS]
    ]
    return _joined(f"<h4>{title}</h4>", '<ol class="spans">', *items, "</ol>")


def _overlap_note(texts: Sequence[AttendedText]) -> str:
    """Say how much the hops of each text overlap."""
    overlaps = [text.overlap for text in texts]
    has_words = any(text.words for text in texts)
    if not has_words or len(texts[0].views) < 3 or None in overlaps:
        return ""
    numbers = " and ".join(f"<b>{overlap:.2f}</b>" for overlap in overlaps)
    return (
        f'<h4>Overlap of the hops</h4>\n<p class="overlap">{numbers} '
        "<small>0: the hops share no word, 1: all read the same word</small></p>"
    )


__all__ = ["attention_fragment", "attention_html", "comparison_html"]
