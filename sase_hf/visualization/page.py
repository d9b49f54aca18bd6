"""Attention as HTML: a page that stands alone, and the same as a piece of another page.

Whatever stands in a text, a label or a title is shown and never obeyed: the page runs no script,
loads nothing and is escaped throughout, and what cannot be seen appears as its code point.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .markup import (
    MAX_HOP_WEIGHTS,
    Allowance,
    escaped,
    joined,
    overlap_note,
    scores_table,
    shortened,
    spans_list,
    texts_with_views,
)
from .readings import Reading, Result, read_results
from .results import label_text

STYLE_SHEET = Path(__file__).with_name("page.css")
FEWEST_LISTED = 4

READ_LIKE_THIS = (
    "The stronger its colour and the thicker the line under it, the more attention a word gets, "
    "measured against the strongest word of the same view. Choose a hop to see what it reads "
    'alone<span class="pointing">; point at a word for its share</span>.'
)
LIMITS = "Attention shows what was read, not why the answer is what it is."

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

    Each text stands there once, coloured by all hops together (summed and renormalised to 1,
    section 2.3 of the paper); below it every hop has a line with its strongest words, and choosing
    the line colours the text by that hop. Beside it are the prediction, the scores of the labels,
    the most attended spans and the overlap of the hops. What a long text leaves no room for is
    said on the page.

    Args:
        results: What the `self-attention` pipeline returned for one input or for several. A
            `true_label` that was added to a result is compared with the prediction.
        title: The heading.

    Returns:
        The page; it can be written as UTF-8 whatever the texts hold.

    Raises:
        ValueError: If a result is not one of that pipeline, or its weights are not finite.
    """
    read = read_results(results)
    contents = [_contents(read)] if len(read) >= FEWEST_LISTED else []
    return document(joined(*contents, *_articles(read, "text")), title, num_views(read))


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
    read = read_results(results)
    body = joined(*_articles(read, f"a{uuid.uuid4().hex[:12]}"))
    return _FRAGMENT.format(style=style(num_views(read)), body=body, scale=_SCALE, limits=LIMITS)


def document(body: str, title: str, views: int, lead: str = READ_LIKE_THIS) -> str:
    """Put a body into the frame of a page.

    Args:
        body: HTML.
        title: The heading, not yet escaped.
        views: The most views that a text in the body has.
        lead: HTML that says how to read the page.
    """
    return _PAGE.format(
        title=escaped(title), style=style(views), lead=lead, scale=_SCALE, body=body, limits=LIMITS
    )


def style(views: int) -> str:
    """Return the style sheet, with a rule for each view that can be chosen."""
    rules = "\n".join(
        f'.sase-attention .result:has(input[value="{view}"]:checked) .words span '
        f"{{ --w: var(--{view}, 0); }}"
        for view in range(1, views)
    )
    return f"{STYLE_SHEET.read_text(encoding='utf-8').strip()}\n{rules}"


def num_views(read: Sequence[tuple[Result, list[Reading]]]) -> int:
    """Return the most views that a text has."""
    return max((len(readings[0].views) for _, readings in read), default=0)


def _articles(read: Sequence[tuple[Result, list[Reading]]], prefix: str) -> list[str]:
    """Show each result in an article of its own."""
    allowance = Allowance(MAX_HOP_WEIGHTS)
    if not read:
        return ['<p class="note">There are no texts.</p>']
    articles = []
    for number, (result, readings) in enumerate(read, start=1):
        name = f"{prefix}-{number}"
        count = f'<span class="number">{number}</span> ' if len(read) > 1 else ""
        kind = "result pair" if len(readings) > 1 else "result"
        articles.append(
            joined(
                f'<article class="{kind}" id="{name}">\n<header>',
                f"<h2>{count}{prediction(result)}</h2>{verdict(result)}",
                "</header>",
                picture(result, readings, name, allowance),
                "</article>",
            )
        )
    return articles


def picture(result: Result, readings: Sequence[Reading], name: str, allowance: Allowance) -> str:
    """Show the texts of a result with their chooser, and beside them the facts about it."""
    titles = ["Most attended"]
    if len(readings) > 1:
        titles = ["Most attended in the first", "Most attended in the second"]
    facts = [
        scores_table(result),
        *map(spans_list, readings, titles),
        overlap_note(readings),
    ]
    return joined(
        '<div class="reading">',
        texts_with_views(readings, name, allowance),
        "</div>\n<aside>",
        *(f"<div>\n{fact}\n</div>" for fact in facts if fact),
        "</aside>",
    )


def prediction(result: Result) -> str:
    """Name the predicted label and its score."""
    score, scores = result["score"], result.get("scores", {})
    number = f"{score:.1%}" if len(scores) > 1 and 0 <= score <= 1 else f"{score:.3f}"
    label = f"<bdi>{escaped(result['label'])}</bdi>"
    return f'<small>Predicted</small> {label} <span class="score">{number}</span>'


def verdict(result: Result) -> str:
    """Say in words whether the prediction is right, if the true label is known."""
    if "true_label" not in result:
        return ""
    known, is_right = true_label(result)
    shown = f"<bdi>{escaped(known)}</bdi>"
    if is_right is None:
        return f'<p class="verdict">True: {shown}</p>'
    if is_right:
        return f'<p class="verdict right"><b>Right</b>: the true label is {shown}</p>'
    return f'<p class="verdict wrong"><b>Wrong</b>: the true label is {shown}</p>'


def true_label(result: Result) -> tuple[str, bool | None]:
    """Return the true label, and whether it was predicted; None if there is no saying so.

    A regression is never quite right, and several true labels are not one prediction.
    """
    known: Any = result["true_label"]
    if isinstance(known, list | tuple) or len(result.get("scores", "ab")) < 2:
        return label_text(known), None
    return label_text(known), str(known) == str(result["label"])


def _contents(read: Sequence[tuple[Result, list[Reading]]]) -> str:
    """List the texts with their predictions, each linked to its article."""
    rows = []
    for number, (result, readings) in enumerate(read, start=1):
        begin = " / ".join(escaped(shortened(reading.text)) for reading in readings)
        known = ""
        if "true_label" in result:
            label, is_right = true_label(result)
            word = {True: ", right", False: ", wrong", None: ""}[is_right]
            known = f"<bdi>{escaped(label)}</bdi>{word}"
        rows.append(
            f'<tr><td>{number}</td><td><a href="#text-{number}" dir="auto">{begin or "(empty)"}</a>'
            f"</td><td><bdi>{escaped(result['label'])}</bdi></td><td>{known}</td></tr>"
        )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("No.", "Text", "Predicted", "True label")
    )
    return joined(
        '<nav aria-label="Texts">\n<table>',
        f"<thead><tr>{heads}</tr></thead>\n<tbody>",
        *rows,
        "</tbody>\n</table>\n</nav>",
    )


__all__ = ["attention_fragment", "attention_html"]
