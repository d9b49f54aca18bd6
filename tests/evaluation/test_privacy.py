"""What may leave the machine in a record, and what must not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers.trainer_utils import IntervalStrategy

from sase_hf.evaluation.privacy import PRIVATE_KEYS, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/anna/data/a.csv", "a.csv"),
        ("/home/anna smith/my data/a b.csv", "a b.csv"),
        ("~/a.csv", "a.csv"),
        ("../../anna/a.csv", "a.csv"),
        (r"C:\Users\anna\a.csv", "a.csv"),
        ("file:///home/anna/a.csv", "a.csv"),
        ("--train_file=/home/anna/a.csv --seed 1", "--train_file=a.csv --seed 1"),
        ("key=hf_" + "a1B2" * 6 + ";", "key=[token];"),
    ],
)
def test_redact_cuts_paths_and_tokens(text: str, expected: str) -> None:
    """Folders hold the names of users, machines and projects."""
    assert redact(text) == expected
    assert redact(expected) == expected, "redacting twice changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "data/reviews.jsonl",
        "https://example.org/a/b?c=d",
        "1/2 and/or 3 / 4",
        "shelf_life hf_short",
        "sha256 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_redact_leaves_other_texts(text: str) -> None:
    """Names of datasets, addresses, labels and numbers are what a record is for."""
    assert redact(text) == text


def test_redact_leaves_out_private_keys_at_every_depth() -> None:
    secrets = dict.fromkeys(PRIVATE_KEYS, "anna")
    value = {"a": [{**secrets, "b": {**secrets, "pad_token": "[PAD]"}}], **secrets}
    assert redact(value) == {"a": [{"b": {"pad_token": "[PAD]"}}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: (True, None), "/home/anna/a": 2}, {"1": [True, None], "a": 2}),
        (float("nan"), None),
        (np.float32(0.5), 0.5),
        (IntervalStrategy.EPOCH, "epoch"),
        (Path("data/a"), "data/a"),
    ],
)
def test_redact_gives_plain_values(value: Any, expected: Any) -> None:
    """Arguments and configs hold such things."""
    cleaned = redact(value)
    assert cleaned == expected
    assert type(cleaned) is type(expected)


def test_redact_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(TypeError, match=r"a record cannot hold a set, \{1\}; use numbers, texts"):
        redact({"a": [0, {"b": {1}}]})
