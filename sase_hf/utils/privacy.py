"""Taking folders, names of users and machines, and tokens out of records."""

import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

# Settings that name a place, a user or a machine.
PRIVATE_KEYS = {"token", "hub_token", "hub_model_id", "run_name"}
PRIVATE_KEYS |= {"output_dir", "logging_dir", "cache_dir"}
# Names of columns and labels, which may look like a path, such as /r/news.
PUBLIC_KEYS = {"text_column_names", "label_column_name", "label_names", "id2label", "label2id"}
# Tokens of the Hugging Face Hub, with those of OAuth and of organisations.
TOKEN = re.compile(r"hf_jwt_[\w.-]{20,}|(?:hf_(?:oauth_)?|api_org_)[A-Za-z0-9]{20,}")
# A folder below that of a user.
HOME = re.compile(r"(?<![\w.])(?:/home|/Users|[A-Za-z]:[\\/]+Users)[\\/]+[\w.-]+[\\/]")

# The start of an absolute or dotted path: POSIX, Windows or file:, but not https://.
_START = r"(?!(?<=:)//)(?:file:(?=//))?(?:~\w*|\.{1,2}|[A-Za-z]:)?[/\\]+"
_PATH = re.compile(rf"{_START}[^\s:;,='\"][^:;,='\"\n]*")  # may hold spaces
_PATH_IN_TEXT = re.compile(rf"(?<![\w/\\.~-]){_START}[^\s:;,='\"<>|]+")


def redact(value: object, *, is_public: bool = False) -> Any:
    """Return dictionaries, lists, texts and numbers as plain JSON without private parts.

    Keys in `PRIVATE_KEYS` are left out, absolute and dotted paths are cut to their last part,
    "[token]" replaces tokens, and None replaces numbers that are not finite. Texts are left whole
    under `PUBLIC_KEYS`, and where all of the value `is_public`.
    """
    if isinstance(value, Mapping):
        return {
            str(key): redact(item, is_public=is_public or key in PUBLIC_KEYS)
            for key, item in value.items()
            if is_public or key not in PRIVATE_KEYS
        }
    if isinstance(value, list | tuple):
        return [redact(item, is_public=is_public) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | PurePath):
        text = str(value)
        if is_public:
            return text
        paths = _PATH if _PATH.fullmatch(text) else _PATH_IN_TEXT
        return TOKEN.sub("[token]", paths.sub(_last_part, text))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _last_part(path: re.Match[str]) -> str:
    return re.split(r"[/\\]", path[0].rstrip("/\\"))[-1]
