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

# An absolute or dotted path, which may hold spaces: POSIX, Windows or file:, but not https://.
_PATH = re.compile(r"(?:file:(?=//))?(?:~\w*|\.{1,2}|[A-Za-z]:)?[/\\]+[^\s:;,='\"][^:;,='\"\n]*")


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
        if _PATH.fullmatch(text) and not is_public:
            text = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
        return text if is_public else TOKEN.sub("[token]", text)
    return None if isinstance(value, float) and not math.isfinite(value) else value
