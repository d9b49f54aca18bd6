"""What may leave the machine in a record, and what must not."""

import json
from enum import Enum
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest
from transformers.trainer_utils import IntervalStrategy

from sase_hf.evaluation.privacy import PRIVATE_KEYS, find_secret, publishable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/anna/data/a.csv", "a.csv"),
        ("/home/anna smith/my data/a b.csv", "a b.csv"),
        ("/home/anna/runs/", "runs"),
        ("//server/share/a.csv", "a.csv"),
        ("~/a.csv", "a.csv"),
        ("~anna/a.csv", "a.csv"),
        ("./a.csv", "a.csv"),
        ("../../anna/a.csv", "a.csv"),
        (r"C:\Users\anna\a.csv", "a.csv"),
        ("C:/Users/anna/a.csv", "a.csv"),
        (r"\\server\share\a.csv", "a.csv"),
        ("file:///home/anna/a.csv", "a.csv"),
        ("--train_file=/home/anna/a.csv --seed 1", "--train_file=a.csv --seed 1"),
        ("/home/anna/a.csv,/home/anna/b.csv", "a.csv,b.csv"),
        ("'/home/anna/a.csv': not found", "'a.csv': not found"),
        ("a:/home/anna/b", "b"),
        ("path:/home/anna/b", "path:b"),
    ],
)
def test_paths_are_reduced_to_their_last_part(text: str, expected: str) -> None:
    """Folders have the names of users, machines and projects in them."""
    assert publishable(text, "text") == expected
    assert publishable(expected, "text") == expected, "applied twice it changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "some/set",
        "data/reviews.jsonl",
        "https://example.org/a/b?c=d",
        "1/2 and/or 3 / 4",
        "a.b",
        "...",
        "",
        "good\nbad",
        "it's 5:30",
        "half-open [0, 1)",
        "sha256 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Names of data sets, addresses, labels and numbers are what a record is for."""
    assert publishable(text, "text") == text


@pytest.mark.parametrize("prefix", ["hf_", "api_org_", "ghp_", "gho_", "github_pat_"])
def test_access_tokens_are_blotted_out(prefix: str) -> None:
    """Wherever they stand; short words that begin alike are none."""
    token = prefix + "a1B2" * 6
    assert publishable(f"key={token};", "text") == "key=[token];"
    assert publishable(f"{prefix}short", "text") == f"{prefix}short"


def test_private_keys_are_left_out_at_every_depth() -> None:
    """They say where or by whom something was measured."""
    secrets = dict.fromkeys(PRIVATE_KEYS, "anna")
    value = {"a": [{**secrets, "b": {**secrets, "pad_token": "[PAD]"}}], **secrets}
    assert publishable(value, "value") == {"a": [{"b": {"pad_token": "[PAD]"}}]}


class Choice(Enum):
    """An enumeration whose value is a path."""

    FILE = Path("/home/anna/file")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: (True, None), "/home/anna/a": 2}, {"1": [True, None], "a": 2}),
        (float("nan"), None),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (IntervalStrategy.EPOCH, "epoch"),
        (Choice.FILE, "file"),
        (Path("/home/anna/a"), "a"),
        (Path("data/a"), "data/a"),
        (PureWindowsPath(r"C:\anna\a"), "a"),
    ],
)
def test_what_stands_for_plain_values_becomes_plain(value: Any, expected: Any) -> None:
    """Arguments and configs hold such things."""
    cleaned = publishable(value, "value")
    assert cleaned == expected
    assert type(cleaned) is type(expected)


def test_what_has_no_form_in_json_is_named() -> None:
    """Its place is given, for a record is deep."""
    with pytest.raises(
        TypeError, match=r"record\.a\[1\]\.b is a set, which has no form in JSON; use"
    ):
        publishable({"a": [0, {"b": {1}}]}, "record")


HF = "hf_" + "aB3" * 11  # in parts, so that no scanner takes it for real


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (json.dumps({"note": f"x\n{HF}"}), "a Hugging Face token"),
        (json.dumps({f"x\tapi_org_{HF[3:]}": 1}), "a Hugging Face token"),
        ('["\\u0068f_' + HF[3:] + '"]', "a Hugging Face token"),
        (f"TOKEN_{HF} %22{HF}", "a Hugging Face token"),
        (f"hf&#95;{HF[3:]}", "a Hugging Face token"),
        ("glpat-" + "aB3" * 7, "a GitLab token"),
        ("xoxb-" + "1234567890-" * 2 + "aB3" * 8, "a Slack token"),
        ("npm_" + "aB3" * 12, "an npm token"),
        ("AIza" + "Sy" + "aB3" * 11, "a Google API key"),
        ("sk_live_" + "aB3" * 8, "an API key"),
        ("nvapi-" + "aB3" * 20, "an API key"),
        ("-----BEGIN PGP " + "PRIVATE KEY BLOCK-----", "a private key"),
        ("https://anna:" + "hunter2@example.org/x", "an address with a password"),
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str, kind: str) -> None:
    """Whoever decodes the file has the token."""
    assert find_secret(text) == (kind, 1)


@pytest.mark.parametrize(
    "text",
    [
        "shelf_life of a half_baked shelf_" + "a" * 10,
        "risk-assessment-of-the-situation and task-oriented",
        "https://example.org:8080/a@b and mailto:anna@example.org",
        json.dumps({"vocabulary": {"hf": 1, "sk": 2, "token": 3}}),
        "a" * 40,
    ],
)
def test_ordinary_words_are_no_secret(text: str) -> None:
    """A false alarm would stop the push of an honest model."""
    assert find_secret(text) is None
