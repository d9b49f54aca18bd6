"""What may leave the machine in a record: no folder, no name of a user or machine, no token."""

import html
import json
import math
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

# Settings that say nothing about a measurement, but where or by whom it was made.
PRIVATE_KEYS = frozenset(
    ("token", "hub_token", "hub_model_id", "run_name", "output_dir", "logging_dir", "cache_dir")
)

TOKEN = re.compile(r"\b(hf_|api_org_|gh[pousr]_|github_pat_)\w{16,}")

# What a text must not hold that goes to the public. These are narrower than `TOKEN`, because they
# stop the work, while blotting out a word too many costs nothing. A whole Hugging Face token is
# found wherever it stands, also behind the letter of an escape such as \n.
SECRETS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "a Hugging Face token": (
            r"hf_[A-Za-z0-9]{30,}|(?<![A-Za-z0-9])(?:hf_(?:oauth_|jwt_)?|api_org_)[A-Za-z0-9]{20,}"
        ),
        "a GitHub token": r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})",
        "a GitLab token": r"(?<![A-Za-z0-9])glpat-[\w-]{20,}",
        "a Slack token": r"(?<![A-Za-z0-9])xox[abeprs]-[A-Za-z0-9-]{20,}",
        "an npm token": r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}",
        "an AWS access key": r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        "a Google API key": r"(?<![A-Za-z0-9])AIza[\w-]{35}",
        "an API key": (
            r"(?<![A-Za-z0-9])(?:sk-(?:\w+-)*\w{20,}|[rs]k_live_\w{20,}|nvapi-[\w-]{30,})"
        ),
        "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
        "an address with a password": r"[a-z]://[^\s/:@\"']+:[^\s/:@\"']+@",
    }.items()
}

# How a path begins that tells of the machine, be it POSIX, Windows or a file address; the two
# slashes of an address on the web are none.
START = r"(?!(?<=:)//)(?:file:(?=//))?(?:~\w*|\.{1,2}|[A-Za-z]:)?[/\\]+"
WHOLE_PATH = re.compile(rf"{START}[^\s:;,='\"][^:;,='\"\n]*")
PATH_IN_TEXT = re.compile(rf"(?<![\w/\\.~-]){START}[^\s:;,='\"<>|]+")


def publishable(value: Any, where: str) -> Any:
    """Return a value as plain JSON without what is private.

    Keys among `PRIVATE_KEYS` are left out, absolute and dotted paths reduced to their last part,
    access tokens blotted out, numbers that are not finite made null. Applied twice it changes
    nothing.

    Args:
        value: Dictionaries, lists, texts, numbers, and what stands for those: tuples, paths,
            enumerations, NumPy numbers.
        where: What the value is called in an error.

    Returns:
        The value, in new containers.

    Raises:
        TypeError: If a value has no form in JSON; names it.
    """
    if isinstance(value, Mapping):
        kept = {str(key): item for key, item in value.items() if key not in PRIVATE_KEYS}
        return {_text(key): publishable(item, f"{where}.{key}") for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [publishable(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Enum):
        return publishable(value.value, where)
    if isinstance(value, np.generic):
        return publishable(value.item(), where)
    if isinstance(value, str | PurePath):
        return _text(str(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    raise TypeError(
        f"{where} is a {type(value).__name__}, which has no form in JSON; use numbers, texts, "
        "lists and dictionaries"
    )


def find_secret(text: str) -> tuple[str, int] | None:
    """Return the kind of the first secret in a text and its line, counted from 1, if there is one.

    Args:
        text: The text. One that is JSON or HTML is searched as its readers see it as well; a secret
            that only they see counts as one of the first line.
    """
    for shown in (text, html.unescape(text), "\n".join(_strings_of(text))):
        for kind, pattern in SECRETS.items():
            if found := pattern.search(shown):
                line = text.count("\n", 0, found.start()) if shown == text else 0
                return kind, line + 1
    return None


def _strings_of(text: str) -> Iterator[str]:
    """Yield the strings and keys of a JSON text, if it is one."""
    try:
        waiting = [json.loads(text)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]


def without_secrets(text: str) -> str:
    """Return a text with its secrets blotted out."""
    for pattern in (TOKEN, *SECRETS.values()):
        text = pattern.sub("[token]", text)
    return text


def _text(text: str) -> str:
    text = TOKEN.sub("[token]", text)
    if WHOLE_PATH.fullmatch(text):  # may hold blanks
        return _last_part(text)
    return PATH_IN_TEXT.sub(lambda found: _last_part(found[0]), text)


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
