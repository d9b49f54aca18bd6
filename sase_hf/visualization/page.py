"""Pages as lists of sections: why a model answered so, attention, alignments, what it learned.

`templates/sections.html` has a macro for each kind of section; this file computes the numbers. A
word carries its strength in every view as custom properties, `--0` for all hops together and `--3`
for hop 3, and what it added to the target as `--pro` or `--con`; one of the size `--full` has the
full colour. What it added by itself, in a linear part, is `--own-pro` or `--own-con`. The style
sheet picks the view of the checked radio button. The text stands in the page once, and choosing
needs no script.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ..models.answers import Answers, answers_of_kind
from ..utils.text import Table
from .alignment import MAX_TOKENS, parse_alignment
from .attended_text import (
    AttendedText,
    Result,
    is_right,
    label_text,
    parse_results,
    predicted_text,
    scale_ends,
    shortened,
    totals_of,
)
from .learned_words import LearnedWords, learned_values
from .rendering import INVISIBLE_IN_JAVASCRIPT, percent, render, signed, with_hashes
from .terminal import attention_text

TOP_WORDS, MIN_TOP_WEIGHT = 4, 0.05
MAX_LABELS = 10

Parsed = tuple[Result, list[AttendedText]]


class Section(NamedTuple):
    """A part of a page, such as the ones that the functions below return."""

    kind: str  # the name of its macro
    content: Any  # what the macro shows
    heading: str = ""
    is_folded: bool = False
    results: Sequence[Parsed] = ()  # which the content shows


def texts_section(
    results: Result | Sequence[Result],
    heading: str = "",
    *,
    prefix: str = "text",
    corrects: bool = False,
) -> Section:
    """Return the coloured texts of results; with `corrects`, people can correct them."""
    parsed = parse_results(results)
    articles = [
        article(one, f"{prefix}-{number}", corrects=corrects)
        for number, one in enumerate(parsed, start=1)
    ]
    return Section("texts", articles, heading, results=parsed)


def table_section(table: Table) -> Section:
    """Return a table."""
    return Section("table", table, table.title)


def learned_section(learned: LearnedWords) -> Section:
    """Return the words of each label, and what each hop reads."""
    return Section("learned", learned_values(learned), "What the model learned")


def page_html(
    title: str,
    sections: Sequence[Section],
    lines: Sequence[str] = (),
    answers: Answers | None = None,
) -> str:
    """Return a stand-alone page: its title, some lines and its sections.

    With the `answers` of a model, people can correct the results, which all have a `true_label`,
    and download what they corrected: the page has a script. It loads nothing.
    """
    parsed = list(chain.from_iterable(section.results for section in sections))
    to_correct = None
    if answers is not None and parsed:
        to_correct = {
            "kind": answers.kind,
            "labels": answers.names,
            "invisible": INVISIBLE_IN_JAVASCRIPT,
            "texts": [_to_correct(*one) for one in parsed],
        }
    values = {"title": title, "lines": lines, "to_correct": to_correct}
    return with_hashes(_render("page.html", sections, values))


def attention_html(
    results: Result | Sequence[Result],
    title: str = "Attention",
    learned: LearnedWords | None = None,
) -> str:
    """Show why a model gave its answers, and its attention: one stand-alone page, without scripts.

    Each text is coloured by "Why", what each word added to the logit of the target; below it stand
    the words for the target and those against it. With a linear part, "The words themselves" shows
    what each word added by itself. Behind it stands the attention: of all hops together (summed and
    renormalised to 1, section 2.3 of the paper), and of each hop, in which words with more than an
    even share have a colour. It is folded where the hops added less than a third of the logit.
    Results without contributions show their attention alone.

    The page compares the prediction with the `true_label`, if one was added to a result. It begins
    with what the model learned, if that is given.
    """
    sections = [] if learned is None else [learned_section(learned)]
    return page_html(title, [*sections, texts_section(results)])


def attention_fragment(results: Result | Sequence[Result]) -> str:
    """Return the texts of `attention_html` as a `section` of another page, such as a notebook.

    Its style sheet styles nothing outside it, and every call gives its elements new names, so that
    several pieces in one document do not disturb each other.
    """
    section = texts_section(results, prefix=f"a{uuid.uuid4().hex[:12]}")
    return _render("fragment.html", [section], {"to_correct": None})


def comparison_html(
    results: Mapping[str, Result | Sequence[Result]], title: str = "Attention compared"
) -> str:
    """Show what several models make of the same texts: one page, without scripts.

    A model trained with the penalty beside one without it gives Figure 4 of the paper. The results
    are by the name of each model; ValueError if their texts differ.
    """
    of_models = {name: parse_results(of_model) for name, of_model in results.items()}
    texts_of = {name: [one["text"] for one, _ in of_models[name]] for name in of_models}
    first, *others = texts_of
    for name in others:
        if texts_of[name] != texts_of[first]:
            raise ValueError(
                f"the texts of {name!r} differ from those of {first!r}; give the results of all "
                "models for the same texts in the same order"
            )
    sections = []
    for number, of_text in enumerate(zip(*of_models.values(), strict=True), start=1):
        articles = [
            {"model": name, **article(one, f"text-{number}-{place}")}
            for place, (name, one) in enumerate(zip(of_models, of_text, strict=True), start=1)
        ]
        sections.append(Section("models", articles, f"Text {number}", results=of_text))
    return page_html(title, sections)


def alignment_html(results: Result | Sequence[Result], title: str = "Alignment") -> str:
    """Show alignments of one text or several: a stand-alone HTML page, without scripts.

    The source runs across and the translation down, as in Figure 3 of Bahdanau et al.; black is a
    weight of 0, white a weight of 1. ValueError for results of another pipeline, or of a model
    without attention.
    """
    if isinstance(results, Mapping):
        results = [results]
    shown = [(result, parse_alignment(result), MAX_TOKENS) for result in results]
    line = "Each row is a word of the translation; the whiter a cell, the more it weighs the word "
    line += "of the source above. This is what was weighed, not why a word was written"
    return page_html(title, [Section("alignments", shown)], [line])


def _render(layout: str, sections: Sequence[Section], values: dict[str, Any]) -> str:
    """Fill in the template; the scale and the number of views follow from the results it shows."""
    texts = list(chain.from_iterable(texts for section in sections for _, texts in section.results))
    *ends, full = scale_ends(texts)
    return render(
        "sections.html",
        layout=layout,
        sections=sections,
        has_texts=bool(texts),
        has_linear=any(text.linear is not None for text in texts),
        num_views=max((len(text.views) for text in texts), default=0),
        scale_ends=ends,
        full=full,
        **values,
    )


def _to_correct(result: Result, texts: Sequence[AttendedText]) -> dict[str, object]:
    """Return what `corrections.js` reads of a result."""
    return {
        "texts": [text.text for text in texts],
        "words": [text.words for text in texts],
        "label": result["true_label"],
        "marks": result.get("marks"),
    }


def article(parsed: Parsed, name: str, *, corrects: bool = False) -> dict[str, Any]:
    """Return the values of the template for one result; `name` is its id in the document."""
    result, texts = parsed
    shown_texts = [text for text in texts if text.words]
    num_views = len(texts[0].views) if shown_texts else 0
    totals = totals_of(result, texts) if shown_texts else None
    true_label = None
    if "true_label" in result:
        true_label = label_text(result["true_label"])
    return {
        "name": name,
        "result": result,
        "predicted": predicted_text(result),
        "score": answers_of_kind(result.get("kind")).shown(result["score"]),
        "true_label": true_label,
        "verdict": {True: "Right", False: "Wrong", None: ""}[is_right(result)],
        "texts": texts,
        "sides": [_side(text) for text in texts],
        "corrects": corrects,
        "views": [[_top_words(text, view) for text in texts] for view in range(num_views)],
        "target": label_text(result.get("target", result["label"])),
        "why": _reasons(texts, [text.added for text in texts]) if totals else [],
        "themselves": _reasons(texts, [text.linear for text in texts]) if totals else [],
        "totals": totals,
        "scores": _scores(result),
    }


def _side(text: AttendedText) -> tuple[list[tuple[str, str, str, str]], str]:
    """Return a text in pieces that keep its spacing.

    Of each word what stands before it, its style, its title and the word; and what stands behind
    the last one.
    """
    strengths = [text.strengths(view) for view in range(len(text.views))]
    nothing = [0.0] * len(text.words)
    added = text.added or nothing
    linear = text.linear or nothing
    pieces = []
    done = 0
    for place, (start, end) in enumerate(text.words):
        styles = [f"--{view}:{own[place]}" for view, own in enumerate(strengths) if own[place]]
        if added[place]:
            styles.append(_signed_style(added[place]))
        if linear[place]:
            styles.append(_signed_style(linear[place], "own-"))
        title = f"read: {percent(text.views[0][place])}"
        if text.added is not None:
            title = f"{signed(added[place])}; {title}"
        pieces.append((text.part(done, start), ";".join(styles), title, text.part(start, end)))
        done = end
    return pieces, text.part(done, len(text.text))


def _signed_style(added: float, kind: str = "") -> str:
    """Return the style of a contribution: for or against the target, and how much."""
    return f"--{kind}{'pro' if added > 0 else 'con'}:{abs(added):.3f}"


def _reasons(
    texts: Sequence[AttendedText], added: Sequence[Sequence[float] | None]
) -> list[list[list[tuple[str, str]]]]:
    """Return of each text the words for the target and those against it, with their numbers."""
    reasons = []
    for text, by_words in zip(texts, added, strict=True):
        if by_words is not None:
            sides = text.for_and_against(by_words, TOP_WORDS)
            reasons.append([[(shortened(w), signed(n)) for w, n in side] for side in sides])
    return reasons


def _top_words(text: AttendedText, view: int) -> list[tuple[str, str]] | None:
    """Return the strongest words of a view with their shares; None for even words."""
    if text.reads_evenly(view):
        return None
    top = text.top_words(view, TOP_WORDS)
    strong = [item for item in top if item[1] >= MIN_TOP_WEIGHT] or top[:1]
    return [(shortened(word), percent(weight)) for word, weight in strong]


def _scores(result: Result) -> dict[str, object]:
    """Return a row for each of the best `MAX_LABELS` labels: its name, bar and number."""
    scores: Mapping[str, float] = result.get("scores") or {result["label"]: result["score"]}
    answers = answers_of_kind(result.get("kind"))
    names = list(scores)
    if len(names) > MAX_LABELS:
        names = sorted(names, key=lambda name: -scores[name])[:MAX_LABELS]
    title = "Probabilities" if answers.has_one_label else "Scores"
    rows = [
        (name, scores[name] if answers.has_labels else None, answers.shown(scores[name]))
        for name in names
    ]
    return {"title": title, "rows": rows, "left_out": len(scores) - len(names)}


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
        results = [self.results] if isinstance(self.results, Mapping) else self.results
        return "\n".join(attention_text(result) for result in results)
