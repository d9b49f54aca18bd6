"""The parts of a record that stay on the machine."""

import json
from pathlib import Path

import numpy as np
import pytest

from sase_hf.utils.text import PRIVATE_KEYS, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/anna smith/my data/a b.csv", "a b.csv"),
        ("../../anna/a.csv", "a.csv"),
        (r"C:\Users\anna\a.csv", "a.csv"),
        ("file:///home/anna/a.csv", "a.csv"),
        ("key=hf_" + "a1B2" * 6 + ";", "key=[token];"),
    ],
)
def test_redact_cuts_paths_and_tokens(text: str, expected: str) -> None:
    """Folders hold the names of users, machines and projects."""
    assert redact(text) == expected
    assert redact(expected) == expected, "redacting twice changes nothing"


def test_redact_leaves_other_texts() -> None:
    """A record needs names of datasets, addresses, labels and numbers."""
    texts = ["data/reviews.jsonl", "https://example.org/a/b?c=d", "1/2 and/or 3 / 4"]
    texts += ["shelf_life hf_short", "sha256 0123456789abcdef0123456789abcdef01234567"]
    assert redact(texts) == texts


def test_redact_leaves_out_private_keys_at_every_depth() -> None:
    secrets = dict.fromkeys(PRIVATE_KEYS, "anna")
    value = {"a": [{**secrets, "b": {**secrets, "pad_token": "[PAD]"}}], **secrets}
    assert redact(value) == {"a": [{"b": {"pad_token": "[PAD]"}}]}


def test_redact_leaves_names_of_columns_and_labels() -> None:
    value = {"text_column_names": ["/title or body"], "id2label": {"0": "/r/news"}}
    value |= {"label2id": {"/r/news": 0}, "a": {"label_column_name": "~/mood"}}
    assert redact(value) == value


def test_redact_gives_plain_values() -> None:
    given = {1: (True, None), "b": float("nan"), "c": np.float32(0.5)}
    given["e"] = Path("/home/anna/b")
    expected = {"1": [True, None], "b": None, "c": 0.5, "e": "b"}
    assert json.loads(json.dumps(redact(given))) == expected
