"""Pages as lists of sections (why, attention, alignments, what was learned), and pictures (SVG).

`templates/sections.html` has a macro for each kind of section; this file computes the numbers. A
word carries its strength in every view as custom properties, `--0` for all hops together and `--3`
for hop 3, and what it added to the target as `--pro` or `--con`; one of the size `--full` has the
full colour. What it added by itself, in a linear part, is `--own-pro` or `--own-con`. The style
sheet picks the view of the checked radio button. The text stands in the page once, and choosing
needs no script.
"""

import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ..models.answers import Answers, answers_of_kind
from ..utils.text import Table, shortened, visible
from .attended_text import (
    FULL_STRENGTH,
    AttendedText,
    Result,
    doubts_of,
    full_contribution,
    is_right,
    label_text,
    parse_result,
    parse_results,
    strengths,
    totals_of,
)
from .learned_words import LearnedWords, learned_values
from .rendering import (
    INVISIBLE_IN_JAVASCRIPT,
    MAX_TOKENS,
    parse_alignment,
    render,
    signed,
    with_hashes,
)
from .terminal import attention_text

TOP_WORDS = 4  # of a view, or on each side
MAX_LABELS = 10  # in the table of scores, where there are more the best

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
    """Return the words of each label."""
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
        to_correct = {  # what `corrections.js` reads
            "kind": answers.kind,
            "labels": answers.names,
            "invisible": INVISIBLE_IN_JAVASCRIPT,
            "texts": [
                {
                    "texts": [text.text for text in texts],
                    "words": [text.words for text in texts],
                    "label": result["true_label"],
                    "marks": result.get("marks"),
                }
                for result, texts in parsed
            ],
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
    are by the name of each model, in the same order.
    """
    of_models = {name: parse_results(of_model) for name, of_model in results.items()}
    sections = []
    for number, of_text in enumerate(zip(*of_models.values(), strict=True), start=1):
        articles = [
            article(one, f"text-{number}-{place}") | {"model": name}
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
    line = (
        "Each row is a word of the translation; the whiter a cell, the more it weighs the word of "
        "the source above. This is what was weighed, not why a word was written"
    )
    return page_html(title, [Section("alignments", shown)], [line])


def _render(layout: str, sections: Sequence[Section], values: dict[str, Any]) -> str:
    """Fill in the template; the scale and the number of views follow from the results it shows."""
    texts = list(chain.from_iterable(texts for section in sections for _, texts in section.results))
    return render(
        "sections.html",
        layout=layout,
        sections=sections,
        has_texts=bool(texts),
        has_linear=any(text.linear is not None for text in texts),
        num_views=max((len(text.views) for text in texts), default=0),
        full=full_contribution(texts),
        top_words=TOP_WORDS,
        max_labels=MAX_LABELS,
        **values,
    )


def article(parsed: Parsed, name: str, *, corrects: bool = False) -> dict[str, Any]:
    """Return the values of the template for one result; `name` is its id in the document."""
    result, texts = parsed
    return {
        "name": name,
        "result": result,
        "texts": texts,
        "corrects": corrects,
        "doubts": doubts_of(result),
        "verdict": {True: "Right", False: "Wrong", None: ""}[is_right(result)],
        "target": label_text(result.get("target", result["label"])),
        "num_views": max(len(text.views) * bool(text.words) for text in texts),
        "totals": totals_of(result, texts),
        "answers": answers_of_kind(result.get("kind")),
        "scores": result.get("scores") or {result["label"]: result["score"]},
    }


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


# ---- why, and the attention, of a text, a pair or a translation as an SVG ------------------------


MAX_HOPS = 40
MAX_WORD_LENGTH = 30


class _Row(NamedTuple):
    """Cells for words: weights from 0 to 1, or shares of a full contribution, with their sign."""

    name: str
    values: Sequence[float]
    is_why: bool = False


def attention_svg(result: Result, title: str = "") -> str:
    """Draw a result of the `self-attention` or the `aligned-translation` pipeline as an SVG.

    Words stand above their cells. The first row, "why", is what each word added to the logit of the
    target, if the result has contributions. Below it stand all hops together and the hops (section
    2.3 of the paper), unless they added less than a third of the logit, which is said then. A
    `true_label` that was added to the result is named. Long texts are wrapped; a note counts the
    words beyond `MAX_TOKENS` and the hops beyond `MAX_HOPS`, which are left out. In an alignment,
    the source runs across and the translation down. Colours are light or dark, as the reader's
    system asks. Raises ValueError for other results.
    """
    grids: list[tuple[Sequence[str], list[_Row], AttendedText | None]]
    hops_behind = ""
    if "alignment" in result:
        weights, names, words = parse_alignment(result)
        grids = [(words, list(map(_Row, names, weights)), None)]
        grids.append((["0", "1"], [_Row("weight", [0, 1])], None))
    else:
        texts = parse_result(result)
        totals = totals_of(result, texts)
        full = full_contribution(texts)
        grids = []
        if totals is not None and totals.are_hops_behind:
            parts = f"{signed(totals.by_hops)} of {signed(totals.together)}"
            hops_behind = f"The hops added {parts}: their attention explains little."
        for text in texts:
            words = [text.part(*span) for span in text.words[:MAX_TOKENS]]
            grids.append((words, list(_rows(text, full, not hops_behind)), text))
        if full:
            ends = [f"against: {signed(-full)} or less", f"for: {signed(full)} or more"]
            grids.append((ends, [_Row("why", [-1, 1], True)], None))
        if not hops_behind:
            ends = ["an even share or less", f"{FULL_STRENGTH} times that or more, or all"]
            grids.append((ends, [_Row("attention", [0, 1])], None))
    return render(
        "attention.svg",
        result=result,
        title=title,
        grids=grids,
        hops_behind=hops_behind,
        max_tokens=MAX_TOKENS,
        max_hops=MAX_HOPS,
        lines_of=_lines,
        shown_of=_shown,
    )


def _rows(text: AttendedText, full: float, has_hops: bool) -> Iterator[_Row]:
    """Yield what words added as a share of `full`, all hops together and each hop."""
    if text.added and full:
        yield _Row("why", [added / full for added in text.added], True)
    views = text.views[: MAX_HOPS + 1] if has_hops else []
    for view in range(len(views)):
        name = f"hop {view}" if view else "all hops"
        yield _Row(name, strengths(text.views[view]))


def _lines(words: Iterable[str], longest: int) -> list[list[tuple[int, int, int, str]]]:
    """Return words in lines of up to `longest` letters: the place of each, its start and width."""
    lines: list[list[tuple[int, int, int, str]]] = [[]]
    end = 0
    for place, word in enumerate(words):
        shown, width = _shown(word)
        if end + width >= longest:
            lines.append([])
            end = 0
        lines[-1].append((place, end, width, shown))
        end += width + 1
    return lines


def _shown(text: str, longest: int = MAX_WORD_LENGTH) -> tuple[str, int]:
    """Return a text on one line, and its width in letters; those of Chinese, say, are double."""
    line = shortened(visible(text), longest)
    return line, sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in line)
