"""Attention as HTML: a stand-alone page, models side by side, a piece of another page or notebook.

The markup is in `templates/`, this file computes the numbers. A word carries its strength in every
view as custom properties, `--0` for all hops together and `--3` for hop 3, and what it added to the
target as `--pro` or `--con`; one of the size `--full` has the full colour. What it added by itself,
in a linear part, is `--own-pro` or `--own-con`. The style sheet picks the view of the checked radio
button. The text stands in the page once, and choosing needs no script.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..models.answers import Answers, answers_of_kind
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
    totals_of,
)
from .learned_page import learned_values
from .learned_words import LearnedWords
from .rendering import INVISIBLE_IN_JAVASCRIPT, percent, render, signed, with_hashes
from .terminal import attention_text

MAX_WORDS = 20_000  # of a text
STRIP_CELLS = 48
TOP_WORDS, MIN_TOP_WEIGHT = 4, 0.05
MAX_LABELS = 10
# Results of a heading that are not folded: two, or the first alone if both have more words.
OPEN_EXAMPLES = 2
MAX_OPEN_WORDS = 100
MIN_CONTENTS = 4  # texts of a page that has a table of contents

Parsed = tuple[Result, list[AttendedText]]


def attention_html(
    results: Result | Sequence[Result],
    title: str = "Attention",
    learned: LearnedWords | None = None,
) -> str:
    """Show the attention of a model: one stand-alone HTML page, without scripts.

    Each text is coloured by all hops together (summed and renormalised to 1, section 2.3 of the
    paper), or by one hop, chosen below it. Only words with more than an even share of the attention
    have a colour. The line "Why" names the words that spoke for a label and against it, and colours
    the text by what each word added. With a linear part, the line "The words themselves" does so
    for what each word added by itself, and the sum of this line and all hops is shown. The words of
    "Why" add up to it; where a pretrained encoder leaves a rest, that has a line. Notes mark a text
    with uniform attention, or with parts left out.

    The page compares the prediction with the `true_label`, if one was added to a result. It begins
    with what the model learned, if that is given.
    """
    parsed = parse_results(results)
    articles = _articles(parsed, "text")
    contents = len(parsed) >= MIN_CONTENTS
    return _render(
        "attention.html",
        parsed,
        title=title,
        articles=articles,
        contents=contents,
        learned=learned,
    )


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
    parsed_of = {
        name: parse_results(results_of_model) for name, results_of_model in results.items()
    }
    texts_of = {}
    for name, parsed in parsed_of.items():
        texts_of[name] = [result["text"] for result, _ in parsed]
    first, *others = texts_of
    for name in others:
        if texts_of[name] != texts_of[first]:
            raise ValueError(
                f"the texts of {name!r} differ from those of {first!r}; give the results of all "
                "models for the same texts in the same order"
            )
    groups = []
    for number, parsed_of_text in enumerate(zip(*parsed_of.values(), strict=True), start=1):
        group = []
        for place, (name, parsed_result) in enumerate(
            zip(parsed_of, parsed_of_text, strict=True), start=1
        ):
            group.append((name, article(parsed_result, f"text-{number}-{place}")))
        groups.append(group)
    all_parsed = list(chain(*parsed_of.values()))
    return _render("comparison.html", all_parsed, title=title, groups=groups)


def tables_html(
    tables: Sequence[Table],
    examples: Mapping[str, Sequence[Result]],
    title: str,
    learned: LearnedWords | None = None,
    *,
    lines: Sequence[str] = (),
    answers: Answers | None = None,
) -> str:
    """Show lines, tables, what the model learned, and results by their headings: one page.

    The first table stands above what the model learned. The others are folded, and so are the
    results of each heading but the first one or two (`_num_open`); they look as in
    `attention_html`. With the `answers` of the model, people can correct the results, which all
    have a `true_label`, and download what they corrected: the page has a script.
    """
    all_parsed: list[Parsed] = []
    shown = []
    for number, (heading, results) in enumerate(examples.items(), start=1):
        parsed = parse_results(results)
        all_parsed += parsed
        articles = _articles(parsed, f"p{number}", corrects=answers is not None)
        shown.append((heading, articles, _num_open(parsed)))
    corrections = None
    if answers is not None and all_parsed:
        corrections = _to_correct(all_parsed, answers)
    rendered = _render(
        "tables.html",
        all_parsed,
        title=title,
        lines=lines,
        open_tables=tables[:1],
        folded_tables=tables[1:],
        examples=shown,
        learned=learned,
        corrections=corrections,
    )
    return with_hashes(rendered)


def _num_open(parsed: Sequence[Parsed]) -> int:
    """Return how many results of a heading are not folded."""
    num_words = 0
    for _, texts in parsed[:OPEN_EXAMPLES]:
        num_words += sum(len(text.words) for text in texts)
    return 1 if num_words > MAX_OPEN_WORDS else OPEN_EXAMPLES


def _to_correct(all_parsed: Sequence[Parsed], answers: Answers) -> dict[str, object]:
    """Return what `corrections.js` reads: the kinds of labels, and the texts in their order."""
    texts_of_articles = []
    for result, texts in all_parsed:
        words = [text.words[:MAX_WORDS] for text in texts]
        own = [text.text for text in texts]
        texts_of_articles.append(
            {
                "texts": own,
                "words": words,
                "label": result["true_label"],
                "marks": result.get("marks"),
            }
        )
    return {
        "kind": answers.kind,
        "labels": answers.names,
        "invisible": INVISIBLE_IN_JAVASCRIPT,
        "texts": texts_of_articles,
    }


def _render(
    template: str,
    parsed: Sequence[Parsed],
    layout: str = "page.html",
    learned: LearnedWords | None = None,
    **values: object,
) -> str:
    """Fill in a template; its scale and the number of views follow from the results it shows."""
    values["learned"] = None if learned is None else learned_values(learned)
    texts = [text for _, texts in parsed for text in texts]
    values["num_views"] = max((len(text.views) for text in texts), default=0)
    values["has_linear"] = any(text.linear is not None for text in texts)
    *ends, full = scale_ends(texts)
    return render(template, layout=layout, scale_ends=ends, full=full, **values)


def _articles(
    parsed: Sequence[Parsed], prefix: str, *, corrects: bool = False
) -> list[dict[str, object]]:
    articles = []
    for number, parsed_result in enumerate(parsed, start=1):
        articles.append(article(parsed_result, f"{prefix}-{number}", corrects=corrects))
    return articles


def article(parsed: Parsed, name: str, *, corrects: bool = False) -> dict[str, object]:
    """Return the values of `article.html` for one result; `name` is its id in the document.

    With `corrects`, people can correct it: every word has an element of its own.
    """
    result, texts = parsed
    true_label = None
    if "true_label" in result:
        true_label = label_text(result["true_label"])
    views = []
    why = []
    themselves = []
    cosines = []
    if any(text.words for text in texts):
        num_views = len(texts[0].views)
        views = [[_line(text, view) for text in texts] for view in range(num_views)]
        why = [_why(text, text.added) for text in texts if text.added is not None]
        themselves = [_why(text, text.linear) for text in texts if text.linear is not None]
        if num_views > 2:
            cosines = [text.cosine for text in texts]
    if None in cosines:
        cosines = []
    return {
        "name": name,
        "result": result,
        "predicted": predicted_text(result),
        "score": answers_of_kind(result.get("kind")).shown(result["score"]),
        "true_label": true_label,
        "verdict": _verdict(result),
        "sides": [_side(text, every_word=corrects) for text in texts],
        "corrects": corrects,
        "views": views,
        "target": label_text(result.get("target", result["label"])),
        "why": why,
        "themselves": themselves,
        **_totals(result, texts),
        "scores": _scores(result),
        "cosines": cosines,
    }


def _verdict(result: Result) -> str:
    """Return "Right", "Wrong", or "" if neither can be said."""
    right = is_right(result)
    if right is None:
        return ""
    return "Right" if right else "Wrong"


def _side(text: AttendedText, *, every_word: bool = False) -> dict[str, object]:
    """Return a text in pieces that keep its spacing.

    `coloured` holds the text before each coloured word, or before `every_word`, the style and the
    title of the word, and the word; `rest` is the text after the last one. The first `end`
    characters are shown.
    """
    strengths = [text.strengths(view) for view in range(len(text.views))]
    nothing = [0.0] * len(text.words)
    added = text.added or nothing
    linear = text.linear or nothing
    coloured = []
    done = 0
    for place, (start, end) in enumerate(text.words[:MAX_WORDS]):
        strengths_of_word = [of_view[place] for of_view in strengths]
        style = _word_style(strengths_of_word, added[place], linear[place])
        if style or every_word:
            title = _word_title(text, place)
            coloured.append((text.part(done, start), style, title, text.part(start, end)))
            done = end
    end = len(text.text)
    if len(text.words) > MAX_WORDS:
        _, end = text.words[MAX_WORDS - 1]
    return {"text": text, "coloured": coloured, "rest": text.part(done, end), "end": end}


def _word_style(strengths: Sequence[float], added: float, linear: float) -> str:
    """Return the style of a word from its strength in each view, and what it added; or "".

    `linear` is what it added by itself.
    """
    styles = [f"--{view}:{strength}" for view, strength in enumerate(strengths) if strength]
    styles += [_bar(added), _bar(linear, "own-")]
    return ";".join(filter(None, styles)).replace(":0.", ":.")


def _word_title(text: AttendedText, place: int) -> str:
    """Return the shares of a word, and what it added to the target, for its tooltip."""
    overall, *hops = (view[place] for view in text.views)
    title = percent(overall)
    if len(hops) > 1:
        strongest = max(range(len(hops)), key=hops.__getitem__)
        title += f"; hop {strongest + 1}: {percent(hops[strongest])}"
    if text.added is not None:
        title += f"; why: {signed(text.added[place])}"
    if text.linear is not None:
        title += f"; by itself: {signed(text.linear[place])}"
    return title


def _bar(added: float, kind: str = "") -> str:
    """Return the style of a contribution of a kind: for or against the target, and how much."""
    size = f"{abs(added):.3f}"
    if float(size) == 0:
        return ""
    return f"--{kind}pro:{size}" if added > 0 else f"--{kind}con:{size}"


def _why(
    text: AttendedText, added_by_words: Sequence[float]
) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """Return the bars of the contributions, and the words for and against with their numbers."""
    bars = [_bar(cell) for cell in _strip(added_by_words)]
    words = []
    for side in text.for_and_against(added_by_words, TOP_WORDS):
        words.append([(shortened(word), signed(added)) for word, added in side])
    return bars, words


def _strip(values: Sequence[float]) -> list[float]:
    """Return the largest of neighbouring numbers in each of up to `STRIP_CELLS` cells."""
    cells = [0.0] * min(STRIP_CELLS, len(values))
    for place, value in enumerate(values):
        cell = place * len(cells) // len(values)
        cells[cell] = max(cells[cell], value, key=abs)
    return cells


def _totals(result: Result, texts: Sequence[AttendedText]) -> dict[str, object]:
    """Return what was added to the target in all, as text.

    `added` has what all hops together and each hop added; nothing if it is unknown. "" stands for
    the others where there is nothing to say: `added_by_words`, what the words themselves added, and
    `together`, that with the hops; `shared_out`, what "Why" shares out among the words, and `rest`,
    what no word has of it.
    """
    totals = totals_of(result, texts)
    if totals is None:
        unknown = ("added_by_words", "together", "shared_out", "rest")
        return {"added": [], **dict.fromkeys(unknown, "")}
    has_linear_part = "linear_contributions" in result
    rest = signed(totals.rest)
    return {
        "added": [signed(added) for added in (sum(totals.by_hop), *totals.by_hop)],
        "added_by_words": signed(totals.by_words_themselves) if has_linear_part else "",
        "together": signed(totals.together) if has_linear_part else "",
        "shared_out": signed(totals.by_words),
        "rest": "" if rest == signed(0.0) else rest,
    }


def _line(text: AttendedText, view: int) -> tuple[list[float], list[tuple[str, str]] | None]:
    """Return the bars of a view, and its strongest words with their shares; None for even words."""
    cells = _strip(text.strengths(view))
    if text.reads_evenly(view):
        return cells, None
    top = text.top_words(view, TOP_WORDS)
    strong = [item for item in top if item[1] >= MIN_TOP_WEIGHT] or top[:1]
    return cells, [(shortened(word), percent(weight)) for word, weight in strong]


def _scores(result: Result) -> dict[str, object]:
    """Return a row for each of the best `MAX_LABELS` labels: its name, bar and number."""
    scores: Mapping[str, float] = result.get("scores") or {result["label"]: result["score"]}
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
        results = [self.results] if isinstance(self.results, Mapping) else self.results
        return "\n".join(attention_text(result) for result in results)
