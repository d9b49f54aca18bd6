"""The content of a page, and results of the pipeline to draw on pages."""

import json
import re
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any

from sase_hf.models.answers import SINGLE_LABEL

VOID = {"meta", "input"}
ELEMENTS = (
    "html head meta title style body main header footer nav section article aside div h1 h2 h3 h4 "
    "p span bdi b i small a table thead tbody tr th td fieldset legend label input "
    "details summary svg path"
)
ATTRIBUTES = (
    "lang charset http-equiv content name class id dir style title type value checked href scope "
    "aria-label aria-hidden open role viewbox d"
)
COLLECTED = ("title", "h1", "h2", "h3")
COLLECTED += ("label.view", "div.view", "summary")
COLLECTED += ("p.line", "p.words", "p.note", "p.verdict", "table.scores")
WEIGHTS = re.compile(r"--(\d+):([\d.]+)")

PAYLOADS = (
    "<script>alert(1)</script>",
    "</p></article><img src=x onerror=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "</title></style><style>@import 'x';</style>",
    "{title} {0} %s &lt;b&gt; &amp;",
)


class Page(HTMLParser):
    """The elements, attributes and texts of a page; fails on tags that do not match.

    `texts` holds the texts of `COLLECTED` by element and class, `weights` the words of each running
    text with their weights in each view.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {name: [] for name in COLLECTED}
        self.weights: list[list[tuple[str, dict[int, float]]]] = []
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element and its attributes; begin a text where one is collected."""
        self.elements.append(tag)
        self.attributes += attrs
        named = dict(attrs)
        if tag in VOID:
            return
        kind = next((tag + f".{name}" for name in (named.get("class") or "").split()), tag)
        if tag == "span" and self.open and self.open[-1] == "p.words":
            found = WEIGHTS.findall(named.get("style") or "")
            self.weights[-1].append(("", {int(view): float(share) for view, share in found}))
            kind = "span.word"
        self.open.append(kind)
        if kind in self.texts:
            self.texts[kind].append("")
        if kind == "p.words":
            self.weights.append([])

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element is the one that ends."""
        assert self.open.pop().partition(".")[0] == tag

    def handle_data(self, data: str) -> None:
        """Add the text to every collected element that is open."""
        for name in self.open:
            if name in self.texts:
                self.texts[name][-1] += data
        if "span.word" in self.open:
            word, weights = self.weights[-1][-1]
            self.weights[-1][-1] = (word + data, weights)

    def values(self, name: str) -> list[str | None]:
        """Return the values of all attributes of a name."""
        return [value for own, value in self.attributes if own == name]


def to_correct(page: str) -> Any:
    """Return what the script of a page reads."""
    content = page.partition('id="to-correct">')[2].partition("</script>")[0]
    return json.loads(content)


def assert_harmless(source: str) -> Page:
    """Check that a page holds only what the package writes, and return it parsed."""
    page = Page(source)
    assert not re.search(r"<(?!/?[a-z]\w*[ >]|!doctype html>)", source), "a bare < is no text"
    assert not set(page.elements) - set(ELEMENTS.split())
    assert not {name for name, _ in page.attributes} - set(ATTRIBUTES.split())
    assert all(re.fullmatch(r"#text-\d+", value or "") for value in page.values("href"))
    assert all(re.fullmatch(r"(--[\w-]+:[\d.]+;?)+", value or "") for value in page.values("style"))
    return page


def reading(text: str, hops: int = 2) -> dict[str, Any]:
    """Return the pipeline's result for a text whose words get ever more attention."""
    spans = [match.span() for match in re.finditer(r"[^ \t\n]+", text)]
    total = sum(range(1, len(spans) + 1))
    weights = [number / total for number in range(1, len(spans) + 1)]
    last = [{"text": text[s:e], "start": s, "end": e, "weight": weights[-1]} for s, e in spans[-1:]]
    return {
        "text": text,
        "tokens": [text[start:end] for start, end in spans],
        "offsets": spans,
        "attention": [weights, weights[::-1], *[weights] * hops][:hops],
        "overall": weights,
        "cosine": 0.25,
        "spans": last,
        "truncated": 0,
    }


def result(text: str, label: str = "4 stars", **more: Any) -> dict[str, Any]:
    scores = {label: 0.75, "another": 0.25}
    answer = {"kind": SINGLE_LABEL, "label": label, "score": 0.75, "scores": scores}
    return {**answer, **reading(text), **more}


def explained(text: str, added: list[float], label: str = "4 stars", **more: Any) -> dict[str, Any]:
    """Return the result of a classifier, whose words added something to the logit of `label`.

    The second hop takes 0.25 from it, and the first has what the words add beyond that.
    """
    others = [0.0] * (len(added) - 1)
    hops = [[sum(added) + 0.25, *others], [-0.25, *others]]
    why = {"target": label, "logit": 1.0, "word_contributions": added, "contributions": hops}
    return result(text, label, **{**why, **more})


def with_linear_part(shown: dict[str, Any], *added: list[float]) -> dict[str, Any]:
    """Return an explained result with what its words added by themselves, in each of its texts.

    The first hop has what is left of what the words added.
    """
    is_pair = not isinstance(shown["text"], str)
    of_texts = deepcopy(shown["contributions"] if is_pair else [shown["contributions"]])
    for hops, linear in zip(of_texts, added, strict=True):
        if linear:
            hops[0][0] -= sum(linear)
    hops = {"contributions": of_texts if is_pair else of_texts[0]}
    return {**shown, **hops, "linear_contributions": list(added) if is_pair else added[0]}


def pair_result(first: str, second: str) -> dict[str, Any]:
    readings = [reading(first), reading(second)]
    sides = {name: [side[name] for side in readings] for name in readings[0]}
    scores = {"neutral": 0.5, "entailment": 0.3, "contradiction": 0.2}
    return {"kind": SINGLE_LABEL, "label": "neutral", "score": 0.5, "scores": scores, **sides}
