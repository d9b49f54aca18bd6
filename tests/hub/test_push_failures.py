"""A push that fails: what it says, and what it leaves behind."""

from pathlib import Path

import pytest
from checkpoints import change_weights
from loopback_hub import DROP, OWNER, READ_TOKEN, TOKEN, Hub

from sase_hf.hub import push

NAME = f"{OWNER}/rooms"


@pytest.mark.parametrize(
    ("asked", "status", "way_out"),
    [
        ("create", 401, r"log in with `hf auth login`, or set HF_TOKEN"),
        ("create", 403, r"403 Forbidden.*a token that may write there"),
        ("preupload", 404, r"check the names of the repository and the revision"),
        ("commit", 409, r"somebody else is changing the repository"),
        ("commit", 429, r"429 Too Many Requests.*push again later"),
        ("commit", 500, r"No commit is left half done there; push again when"),
        ("commit", DROP, r"disconnected.*push again when the Hub can be reached"),
        ("tree", 500, r"cannot be pushed to: .*push again when"),
        ("commit", 400, r"mend what it names and push again"),
        ("resolve", 500, r"was pushed as \w{40}, but cannot be read back"),
    ],
)
def test_what_the_hub_refuses_comes_with_a_way_out(
    folder: Path, hub: Hub, asked: str, status: int, way_out: str
) -> None:
    """The library's errors speak of requests; a person wants to know what to do."""
    hub.faults[asked] = status
    with pytest.raises(OSError, match=way_out) as told:
        push(folder, NAME)
    assert TOKEN not in str(told.value)
    assert told.value.__cause__ is None, "a traceback would show the request with its token"


@pytest.mark.parametrize(
    ("token", "expected"),
    [(READ_TOKEN, r"rights to write.*a token that may"), ("hf_wrong" + "0" * 20, r"log in with")],
)
def test_a_token_that_may_not_write_is_told(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str, expected: str
) -> None:
    """The commonest failure of a first push; the token itself is not repeated."""
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(OSError, match=expected) as told:
        push(folder, NAME)
    assert token not in str(told.value)
    assert not hub.repositories


def test_offline_says_how_to_check_without_a_network(folder: Path) -> None:
    """The tests are offline; so is a train."""
    with pytest.raises(OSError, match=r"unset HF_HUB_OFFLINE, or give --dry-run"):
        push(folder, NAME)


@pytest.mark.parametrize("fault", [("upload", DROP), ("upload", 500), ("commit", DROP)])
def test_an_interrupted_push_leaves_the_old_model_whole(
    folder: Path, hub: Hub, fault: tuple[str, int]
) -> None:
    """Readers go on loading what was there; the second try puts the new one in its place."""
    push(folder, NAME)
    old, commit = hub.files(NAME), hub.repositories[NAME].branches["main"]
    change_weights(folder, lambda weights: weights["classifier.output.bias"].add_(1))
    hub.faults = dict([fault])
    with pytest.raises(OSError, match=r"someone/rooms cannot be pushed to"):
        push(folder, NAME)
    assert hub.repositories[NAME].branches["main"] == commit
    assert hub.files(NAME) == old
    hub.faults = {}
    push(folder, NAME)
    new = hub.files(NAME)["model.safetensors"]
    assert new == (folder / "model.safetensors").read_bytes() != old["model.safetensors"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_arrives_otherwise_than_sent_is_noticed(folder: Path, hub: Hub, name: str) -> None:
    """The commit succeeded, so nobody else would look."""
    hub.damaged.add(name)
    with pytest.raises(OSError, match=rf"at \w{{40}} does not hold what was sent: {name} differ"):
        push(folder, NAME)


def test_a_card_that_the_hub_refuses_leaves_no_repository_behind(folder: Path, hub: Hub) -> None:
    """It knows licences and languages that we do not check."""
    hub.faults["validate"] = 400
    with pytest.raises(ValueError, match=r"the Hub refuses README\.md: .*mend it, push again"):
        push(folder, NAME)
    assert not hub.repositories
