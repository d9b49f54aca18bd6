"""Hostile strings through tokenizer, model and page: no crash, no NaN, no markup.

SASE_HF_FUZZED_STRINGS=100000 tries that many before a release.
"""

import math
import os
import random
from collections.abc import Iterator
from typing import Any

from shown import PAYLOADS, assert_harmless
from tiny import tiny_config
from transformers import pipeline

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.visualization import attention_html, attention_text, visible

NUM_STRINGS = int(os.environ.get("SASE_HF_FUZZED_STRINGS", "300"))
STRINGS_OF_A_PAGE = 50

PIECES = (
    *PAYLOADS,
    *("{{7*7}}", "${jndi:ldap://x}", "%(title)s", "{0.__class__}", "</", "<", ">", "'", '"', "\\"),
    *("<svg/onload=alert(1)>", "<a href='https://x.example'>", "-->", "]]>", "<!--", "<![CDATA["),
    *(
        "&#x3c;script&#x3e;",
        "&lt",
        "<plaintext>",
        "</span>",
        "[PAD]",
        "[UNK]",
        "The soup.",
        "don't",
    ),
    *(" ", "\n", "\r\n", "\t", "e\u0301", "\uffff", "\u202e", "\u2066\u2069", "\u200d", "\ufe0f"),
    *("\0", "\x1b[2J", "\ud800", "\ud83d\ude00", "\u2028", "\x85", "\u3164", "\u2800", "寿司"),
    *("👨\u200d👩\u200d👧", "👍🏽", "🇫🇷🇩🇪", "🏴\U000e0067\U000e007f", "שלום", "\U000e0041"),
)
EXTREME = ["x" * 300_000, "e" + "\u0301" * 10_000, " \n\t" * 1000, "\u202e" * 1000, "<" * 3000]


def fuzzed() -> Iterator[str]:
    """Yield strings of hostile pieces and random characters."""
    rng = random.Random(0)
    for _ in range(NUM_STRINGS):
        pieces = rng.choices(PIECES, k=rng.randint(0, 6))
        anywhere = (chr(rng.randrange(0x110000)) for _ in range(rng.randint(0, 4)))
        low = (chr(rng.randrange(0x300)) for _ in range(rng.randint(0, 6)))
        pieces += [*anywhere, *low]
        rng.shuffle(pieces)
        yield "".join(pieces)


def random_reader() -> Any:
    tokenizer = build_tokenizer(["The soup was not good, but the bread was.", "< > & don't"])
    names = dict(enumerate(PAYLOADS[:3]))
    config = tiny_config(vocab_size=len(tokenizer), id2label=names, num_hops=2)
    model = SelfAttentiveForSequenceClassification(config).eval()
    return pipeline("self-attention", model=model, tokenizer=tokenizer)


def test_hostile_texts_labels_and_titles_are_shown_as_text() -> None:
    """In a page and in a terminal, which gets no control sequences but ours."""
    reader = random_reader()
    strings = [*EXTREME, *fuzzed()]
    results = [*reader(EXTREME), *reader(strings[len(EXTREME) :], batch_size=STRINGS_OF_A_PAGE)]
    for start in range(0, len(results), STRINGS_OF_A_PAGE):
        shown = []
        for place, result in enumerate(results[start : start + STRINGS_OF_A_PAGE], start=start):
            assert all(map(math.isfinite, result["scores"].values()))
            for hop in [result["overall"], *result["attention"]]:
                assert not hop or math.isclose(sum(hop), 1, abs_tol=1e-4)
            assert result["text"] == strings[place]
            label = strings[-place - 1][:200]
            scores = {label: 0.5, f"other {label}": 0.5}
            shown.append({**result, "label": label, "scores": scores, "true_label": label})
        title = strings[-start - 1]
        page = assert_harmless(attention_html(shown, title=title).encode().decode())
        assert page.texts["p.words"] == [visible(result["text"]) for result in shown]
        assert page.texts["title"] == page.texts["h1"] == [visible(title)]
        for result in shown[5:10]:
            plain = attention_text(result)
            assert visible(plain) == plain
