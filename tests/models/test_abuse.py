"""Strings made to do harm, through tokenizer, model and page: no crash, no NaN, no markup.

A few thousand of them in every run; SASE_HF_FUZZED_STRINGS=100000 tries as many as a release.
"""

import math
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from shown import PAYLOADS, assert_harmless
from tiny import tiny_config
from transformers import pipeline

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.visualization import (
    attention_fragment,
    attention_html,
    attention_text,
    comparison_html,
    visible,
)

NUM_STRINGS = int(os.environ.get("SASE_HF_FUZZED_STRINGS", "1500"))
STRINGS_OF_A_PAGE = 50

PIECES = (
    *PAYLOADS,
    *("{{7*7}}", "{% raw %}", "${jndi:ldap://x}", "<%= 1 %>", "#{1}", "%(title)s", "{0.__class__}"),
    *("<svg/onload=alert(1)>", "javascript:alert(1)", "<a href='https://x.example'>", "-->", "]]>"),
    *("<!--", "<![CDATA[", "&#x3c;script&#x3e;", "&lt", "&amp;amp;", "<plaintext>", "</span>", "<"),
    *("[PAD]", "[UNK]", "<s>", "[CLS]", "\\", "`", "'", '"', "=", ">", "url(//x)", "expression(1)"),
    *("good", "not", "bread", "The soup.", "don't", " ", "  ", "\n", "\r\n", "\t", "e\u0301"),
    *("\u202e", "\u2066\u2069", "\u200b", "\u200d", "\u200c", "\ufe0f", "\ufeff", "\0", "\x1b[2J"),
    *("\ud800", "\udfff", "\ud83d\ude00", "\u2028", "\x85", "\u3164", "\u115f", "\u2800", "\uffff"),
    *("👨\u200d👩\u200d👧", "👍🏽", "🇫🇷🇩🇪", "🏴\U000e0067\U000e007f", "寿司", "שלום", "\U000e0041"),
)


def fuzzed(seed: int, count: int) -> Iterator[str]:
    """Yield strings of pieces that do harm somewhere, and of any characters at all."""
    rng = random.Random(seed)
    for _ in range(count):
        pieces = rng.choices(PIECES, k=rng.randint(0, 6))
        anywhere = (chr(rng.randrange(0x110000)) for _ in range(rng.randint(0, 4)))
        low = (chr(rng.randrange(0x300)) for _ in range(rng.randint(0, 6)))
        pieces += [*anywhere, *low]
        rng.shuffle(pieces)
        yield "".join(pieces)


@pytest.fixture(scope="module")
def readers() -> dict[str, Any]:
    """The pipeline of a classifier and that of an entailment model, both tiny."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer(["The soup was not good, but the bread was.", "< > & don't"])
    names = dict(enumerate(PAYLOADS[:3]))
    config = tiny_config(vocab_size=len(tokenizer), id2label=names, num_hops=2)
    heads = {"text": SelfAttentiveForSequenceClassification, "pair": SelfAttentiveForNLI}
    return {
        kind: pipeline("self-attention", model=head(config).eval(), tokenizer=tokenizer)
        for kind, head in heads.items()
    }


@pytest.fixture(autouse=True)
def short_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the small bars of a hop as one: they hold no text, and are most of what is parsed."""
    monkeypatch.setattr("sase_hf.visualization.page.STRIP_CELLS", 1)


def assert_whole(result: dict[str, Any]) -> None:
    """Check that every number of a result is one, and that weights sum to 1 or to nothing."""
    assert all(map(math.isfinite, result["scores"].values()))
    for hop in [result["overall"], *result["attention"]]:
        assert all(map(math.isfinite, hop))
        assert not hop or math.isclose(sum(hop), 1, abs_tol=1e-4)
    assert all(map(math.isfinite, [result["overlap"], *(s["weight"] for s in result["spans"])]))


def test_fuzzed_strings_are_read_and_shown_as_they_are(readers: dict[str, Any]) -> None:
    """As text, as label, as true label and as title: a parser finds what we write, and the text."""
    strings = list(fuzzed(0, NUM_STRINGS))
    results = readers["text"](strings, batch_size=STRINGS_OF_A_PAGE)
    assert len(results) == len(strings)
    for start in range(0, len(results), STRINGS_OF_A_PAGE):
        shown = []
        for place, result in enumerate(results[start : start + STRINGS_OF_A_PAGE], start=start):
            assert_whole(result)
            assert result["text"] == strings[place]
            strange = strings[place - 1]
            scores = {strange: 0.5, f"other {strange}": 0.5}
            shown.append({**result, "label": strange, "scores": scores, "true_label": strings[-1]})
        title = strings[start]
        page = assert_harmless(attention_html(shown, title=title).encode().decode())
        assert page.texts["p.words"] == [visible(result["text"]) for result in shown]
        assert page.texts["title"] == page.texts["h1"] == [visible(title)]
        heads = (f"Predicted {visible(result['label'])} 100.0%" for result in shown)
        ends = [f" {result['score']:.1%}" for result in shown]
        for head, end, said in zip(heads, ends, page.texts["h2"], strict=True):
            assert said.endswith(head.removesuffix(" 100.0%") + end)


def test_fuzzed_pairs_are_read_and_compared_under_fuzzed_names(readers: dict[str, Any]) -> None:
    """As either text of a pair, and as the name of a model or of a file."""
    strings = list(fuzzed(1, max(NUM_STRINGS // 10, STRINGS_OF_A_PAGE)))
    pairs = [
        {"text": first, "text_pair": second}
        for first, second in zip(strings, reversed(strings), strict=True)
    ]
    results = readers["pair"](pairs, batch_size=STRINGS_OF_A_PAGE)
    for start in range(0, len(results), STRINGS_OF_A_PAGE):
        shown = results[start : start + STRINGS_OF_A_PAGE]
        names = [f"{strings[start]} a", f"{strings[start]} b"]
        page = assert_harmless(comparison_html(dict.fromkeys(names, shown)).encode().decode())
        texts = [visible(text) for result in shown for text in result["text"]]
        assert page.texts["p.words"][:2] == texts[:2]
        assert page.texts["h3"] == [visible(name) for name in names] * len(shown)
        assert_harmless(attention_fragment(shown).encode().decode())


def test_fuzzed_strings_do_not_reach_the_terminal(readers: dict[str, Any]) -> None:
    """Nothing but our own escape sequences: no control, no override, no half character."""
    for result in readers["text"](list(fuzzed(2, 200)), batch_size=STRINGS_OF_A_PAGE):
        plain = attention_text(result, color=False)
        assert visible(plain) == plain
        colored = attention_text(result, color=True)
        assert colored.count("\x1b") == colored.count("\x1b[0")


def test_long_and_piled_up_texts_are_answered(readers: dict[str, Any]) -> None:
    """A megabyte without a space, ten thousand accents on a letter, nothing but blanks."""
    texts = ["x" * 1_000_000, "e" + "\u0301" * 10_000, " \n\t" * 1000, "\u202e" * 1000, "<" * 3000]
    results = readers["text"](texts)
    for result in results:
        assert_whole(result)
    page = assert_harmless(attention_html(results))
    assert page.texts["p.words"] == [visible(text) for text in texts]
