"""HTML from templates, and the alignments in it.

Texts, labels and titles are shown and never obeyed: jinja2 escapes every value of a template, and
`visible` shows its invisible characters. The pages load nothing. Only `live.html` and, where people
can correct what is shown, `sections.html` run a script: their own, by its hash.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..utils.text import INVISIBLE, shortened, visible
from .attended_text import (
    FULL_STRENGTH,
    NONE_STANDS_OUT,
    Result,
    answer_text,
    label_text,
    nearest_text,
    predicted_text,
    score_text,
)


def percent(share: float) -> str:
    """Return a share with one digit after the point if it is small."""
    return f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}"


def signed(added: float) -> str:
    """Return a contribution with its sign."""
    return f"{round(added, 2) + 0.0:+.2f}".replace("-", "−")  # 0.0: no minus zero


def _shown(value: object) -> object:
    """Return a value as a template shows it; numbers and escaped text stay as they are."""
    return value if isinstance(value, int | float) or hasattr(value, "__html__") else visible(value)


def _in_javascript(pattern: str) -> str:
    """Return a verbose pattern of Python in JavaScript's spelling, without its comments."""
    compact = re.sub(r"(?m)^\s*#.*$|\s|P(?=<)", "", pattern)
    return re.sub(r"\\U0*(\w+)", r"\\u{\1}", compact)


FOLDER = Path(__file__).with_name("templates")
INVISIBLE_IN_JAVASCRIPT = _in_javascript(INVISIBLE.pattern)


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        percent=percent,
        shortened=shortened,
        signed=signed,
        label_text=label_text,
        nearest_text=nearest_text,
        predicted_text=predicted_text,
        answer=answer_text,
        score_text=score_text,
    )
    environment.globals.update(FULL_STRENGTH=FULL_STRENGTH, NONE_STANDS_OUT=NONE_STANDS_OUT)
    return environment


def render(template: str, folder: Path = FOLDER, /, **values: object) -> str:
    """Return a template of a folder filled in; it may extend those of the folder `templates`."""
    return _environment(folder).get_template(template).render(values)


def with_hashes(rendered: str) -> str:
    """Return a page whose policy allows its own script and style, by their hashes.

    They are the first elements without attributes; the policy has `hash-of-script` and
    `hash-of-style` in their places.
    """
    policy, title, rest = rendered.partition("<title>")  # all that others wrote stands behind it
    for tag in ("script", "style"):
        element = rest.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()
        policy = policy.replace(f"hash-of-{tag}", f"'sha256-{digest}'")
    return policy + title + rest


# ---- the alignment of a translation --------------------------------------------------------------


MAX_TOKENS = 200  # of a text
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space before a piece of a text


def parse_alignment(result: Result) -> tuple[list[list[float]], list[str], list[str]]:
    """Return the weights, shape (L, T), the L target words and the T source words."""
    weights = result["alignment"]
    if weights is None:
        raise ValueError("the model has no attention, so there is no alignment to show")
    shown_weights = [list(row[:MAX_TOKENS]) for row in weights[:MAX_TOKENS]]
    return shown_weights, _words(result["tokens"]), _words(result["source_tokens"])


def _words(tokens: Sequence[str]) -> list[str]:
    """Return the first tokens as they are shown, a space as `SPACE`."""
    return [visible(token.replace(SPACE, "") or SPACE) for token in tokens[:MAX_TOKENS]]
