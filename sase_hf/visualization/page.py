"""Attention as HTML: a stand-alone page, models side by side, a piece of another page or notebook.

The markup is in `templates/`, this file computes the numbers. A word carries its strength in every
view as custom properties, `--0` for all hops together and `--3` for hop 3, and what it added to the
target as `--pro` or `--con`; one of the size `--full` has the full colour. The style sheet picks
the view of the checked radio button. The text stands in the page once, and choosing needs no
script.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..models.answers import answers_of_kind
from ..utils.text import Table
from .attended_text import (
    AttendedText,
    Result,
    is_right,
    label_text,
    parse_results,
    predicted_text,
    scale_ends,
    shortened,
)
from .rendering import percent, render, signed
from .terminal import attention_text

MAX_WORDS = 20_000  # of a text
STRIP_CELLS = 48
TOP_WORDS, MIN_TOP_WEIGHT = 4, 0.05
MAX_LABELS = 10
MIN_CONTENTS = 4  # texts of a page that has a table of contents

Parsed = tuple[Result, list[AttendedText]]


def attention_html(results: Result | Sequence[Result], title: str = "Attention") -> str:
    """Show the attention of a model: one stand-alone HTML page, without scripts.

    Each text is coloured by all hops together (summed and renormalised to 1, section 2.3 of the
    paper), or by one hop, chosen below it. Only words with more than an even share of the attention
    have a colour. The line "Why" names the words that spoke for a label and against it, and colours
    the text by what each word added. Notes mark a text with uniform attention, or with parts left
    out.

    The page compares the prediction with the `true_label`, if one was added to a result.
    """
    parsed = parse_results(results)
    articles, contents = _articles(parsed, "text"), len(parsed) >= MIN_CONTENTS
    return _render("attention.html", parsed, title=title, articles=articles, contents=contents)


def attention_fragment(results: Result | Sequence[Result]) -> str:
    """Return the articles of `attention_html` as a `section` of another page, such as a notebook.

    Its style sheet styles nothing outside it, and every call gives its elements new names, so that
    several pieces in one document do not disturb each other.
    """
    parsed = parse_results(results)
    articles = _articles(parsed, f"a{uuid.uuid4().hex[:12]}")
    return _render("attention.html", parsed, "fragment.html", articles=articles, contents=False)


def comparison_html(
    results: Mapping[str, Result | Sequence[Result]], title: str = "Attention compared"
) -> str:
    """Show the attention of several models on the same texts: one page, without scripts.

    A model trained with the penalty beside one without it gives Figure 4 of the paper. The results
    are by the name of each model; ValueError if their texts differ.
    """
    parsed = {name: parse_results(own) for name, own in results.items()}
    texts_of = {name: [result["text"] for result, _ in own] for name, own in parsed.items()}
    first, *others = texts_of
    for name in others:
        if texts_of[name] != texts_of[first]:
            raise ValueError(
                f"the texts of {name!r} differ from those of {first!r}; give the results of all "
                "models for the same texts in the same order"
            )
    columns = [
        [article(one, f"text-{number}-{place}") for number, one in enumerate(own, start=1)]
        for place, own in enumerate(parsed.values(), start=1)
    ]
    groups = [list(zip(parsed, row, strict=True)) for row in zip(*columns, strict=True)]
    return _render("comparison.html", [*chain(*parsed.values())], title=title, groups=groups)


def tables_html(
    tables: Sequence[Table], examples: Mapping[str, Sequence[Result]], title: str
) -> str:
    """Show tables, and below them the results of `attention_html` by their headings: one page."""
    parsed = [parse_results(results) for results in examples.values()]
    articles = [_articles(some, f"p{number}") for number, some in enumerate(parsed, start=1)]
    shown = list(zip(examples, articles, strict=True))
    return _render("tables.html", [*chain(*parsed)], title=title, tables=tables, examples=shown)


def _render(
    template: str, parsed: Sequence[Parsed], layout: str = "page.html", **values: Any
) -> str:
    """Fill in a template; its scale and the number of views follow from the results it shows."""
    texts = [*chain(*(texts for _, texts in parsed))]
    values["num_views"] = max((len(text.views) for text in texts), default=0)
    *ends, full = scale_ends(texts)
    return render(template, layout=layout, scale_ends=ends, full=full, **values)


def _articles(parsed: Sequence[Parsed], prefix: str) -> list[dict[str, Any]]:
    return [article(one, f"{prefix}-{number}") for number, one in enumerate(parsed, start=1)]


def article(parsed: Parsed, name: str) -> dict[str, Any]:
    """Return the values of `article.html` for one result; `name` is its id in the document."""
    result, texts = parsed
    num_views = len(texts[0].views)
    has_words = any(text.words for text in texts)
    cosines = [text.cosine for text in texts]
    return {
        "name": name,
        "result": result,
        "predicted": predicted_text(result),
        "score": answers_of_kind(result.get("kind")).shown(result["score"]),
        "true_label": label_text(result["true_label"]) if "true_label" in result else None,
        "verdict": _verdict(result),
        "sides": [_side(text) for text in texts],
        "views": [[_line(text, view) for text in texts] for view in range(num_views) if has_words],
        "target": label_text(result.get("target", result["label"])),
        "why": [_why(text) for text in texts if has_words and text.added is not None],
        "added": _added(result),
        "scores": _scores(result),
        "cosines": cosines if has_words and num_views > 2 and None not in cosines else [],
    }


def _verdict(result: Result) -> str:
    """Return "Right", "Wrong", or "" if neither can be said."""
    return {True: "Right", False: "Wrong", None: ""}[is_right(result)]


def _side(text: AttendedText) -> dict[str, Any]:
    """Return a text in pieces that keep its spacing.

    `coloured` holds the text before each coloured word, the style and the title of the word, and
    the word; `rest` is the text after the last one. The first `end` characters are shown.
    """
    views = [text.strengths(view) for view in range(len(text.views))]
    bars = map(_bar, text.added or [0.0] * len(text.words))
    coloured, done = [], 0
    for place, ((start, end), bar) in enumerate(zip(text.words[:MAX_WORDS], bars, strict=False)):
        styles = [f"--{view}:{own[place]}" for view, own in enumerate(views) if own[place]]
        if style := ";".join([*styles, *filter(None, [bar])]):
            before, word = text.part(done, start), text.part(start, end)
            coloured.append((before, style.replace(":0.", ":."), _word_title(text, place), word))
            done = end
    end = len(text.text) if len(text.words) <= MAX_WORDS else text.words[MAX_WORDS - 1][1]
    return {"text": text, "coloured": coloured, "rest": text.part(done, end), "end": end}


def _word_title(text: AttendedText, place: int) -> str:
    """Return the shares of a word, and what it added to the target, for its tooltip."""
    overall, *hops = (view[place] for view in text.views)
    title = percent(overall)
    if len(hops) > 1:
        strongest = max(range(len(hops)), key=hops.__getitem__)
        title += f"; hop {strongest + 1}: {percent(hops[strongest])}"
    return title if text.added is None else f"{title}; why: {signed(text.added[place])}"


def _bar(added: float) -> str:
    """Return the style of a contribution: for or against the target, and how much."""
    size = f"{abs(added):.3f}"
    return f"--{'pro' if added > 0 else 'con'}:{size}" if float(size) else ""


def _why(text: AttendedText) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """Return the bars of the contributions, and the words for and against with their numbers."""
    sides = text.for_and_against(TOP_WORDS)
    words = [[(shortened(word), signed(value)) for word, value in side] for side in sides]
    return [_bar(cell) for cell in _strip(text.added or [])], words


def _strip(values: Sequence[float]) -> list[float]:
    """Return the largest of neighbouring numbers in each of up to `STRIP_CELLS` cells."""
    cells = [0.0] * min(STRIP_CELLS, len(values))
    for place, value in enumerate(values):
        cell = place * len(cells) // len(values)
        cells[cell] = max(cells[cell], value, key=abs)
    return cells


def _added(result: Result) -> list[str]:
    """Return what all hops together and each hop added to the target; nothing if it is unknown."""
    if "hop_contributions" not in result:
        return []
    by_label = result["hop_contributions"]
    sides = [by_label] if isinstance(by_label, Mapping) else by_label
    hops = [sum(hop) for hop in zip(*(side[result["target"]] for side in sides), strict=True)]
    return [signed(added) for added in (sum(hops), *hops)]


def _line(text: AttendedText, view: int) -> tuple[list[float], list[tuple[str, str]] | None]:
    """Return the bars of a view, and its strongest words with their shares; None for even words."""
    cells = _strip(text.strengths(view))
    if text.reads_evenly(view):
        return cells, None
    top = text.top_words(view, TOP_WORDS)
    strong = [item for item in top if item[1] >= MIN_TOP_WEIGHT] or top[:1]
    return cells, [(shortened(word), percent(weight)) for word, weight in strong]


def _scores(result: Result) -> dict[str, Any]:
    """Return a row for each of the best `MAX_LABELS` labels: its name, bar and number."""
    scores: dict[Any, float] = dict(result.get("scores") or {result["label"]: result["score"]})
    answers = answers_of_kind(result.get("kind"))
    names = list(scores)
    if len(names) > MAX_LABELS:
        names = sorted(names, key=lambda name: -scores[name])[:MAX_LABELS]
    rows = []
    for name in names:
        bar = answers.bar(scores[name])
        length = None if bar is None else f"{bar:.3f}"
        rows.append((name, length, answers.shown(scores[name])))
    return {"title": answers.scores_title, "rows": rows, "left_out": len(scores) - len(names)}


@dataclass(frozen=True, repr=False)
class Attention:
    """Results of the `self-attention` pipeline for one input or several, shown by a notebook.

    Write `Attention(explain("The soup was good."))` as the last line of a cell. Elsewhere it prints
    as `attention_text` does.
    """

    results: Result | Sequence[Result]

    def _repr_html_(self) -> str:
        return attention_fragment(self.results)

    def __repr__(self) -> str:
        several = [self.results] if isinstance(self.results, Mapping) else self.results
        return "\n".join(f"{one['label']}: {attention_text(one, color=False)}" for one in several)
