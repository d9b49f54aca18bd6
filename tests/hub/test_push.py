"""`push` and `scripts/push.py`: what goes up, what stays, and what failures leave behind."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights, write_owned_card
from huggingface_hub import HfApi, constants
from loopback_hub import DROP, OWNER, READ_TOKEN, TOKEN, Hub
from safetensors.torch import load_file
from script_files import load_script

from sase_hf import SelfAttentiveForSequenceClassification, SelfAttentiveModel
from sase_hf.hub import push
from sase_hf.models import FAMILIES

NAME = f"{OWNER}/rooms"
MODEL_FILES = {
    "README.md",
    "config.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    *FAMILIES["self_attentive"].files,
}


# ---- what goes up --------------------------------------------------------------------------------


def test_push_sends_the_files_of_a_model_and_nothing_else(folder: Path, hub: Hub) -> None:
    """A run's folder holds pickles, tokens, logs and predictions."""
    private = {"training_args.bin", "optimizer.pt", "rng_state.pth", ".env", "notes.pkl"}
    private |= {"trainer_state.json", "predictions.jsonl", "attention.html", "pytorch_model.bin"}
    private |= {"my_self_attentive.py", "evil.safetensors", "model-00001-of-00009.safetensors"}
    for name in private:
        (folder / name).write_text(TOKEN, encoding="utf-8")
    for name in ("runs", "checkpoint-8"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(TOKEN, encoding="utf-8")
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert held.keys() == MODEL_FILES | {".gitattributes"}
    assert done.publication.left_out == sorted(private | {"runs/", "checkpoint-8/"})
    for name in MODEL_FILES:
        assert held[name] == (folder / name).read_bytes(), name
        assert str(folder).encode() not in held[name], name


def test_push_makes_one_commit(folder: Path, hub: Hub) -> None:
    """Readers load the old model or the new one, never half of each."""
    done = push(folder, NAME, commit_message="Better rooms")
    repository = hub.repositories[NAME]
    assert list(repository.messages.values()) == ["initial commit", "Better rooms"]
    assert repository.branches["main"] == done.commit


def test_push_takes_a_folder_of_links(folder: Path, hub: Hub, tmp_path: Path) -> None:
    """The cache of the Hub's client is made of them."""
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    push(linked, NAME)
    assert hub.files(NAME)["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_push_dry_run_lists_everything_and_needs_no_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError(f"a connection: {args}")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    (folder / ".env").write_text(TOKEN, encoding="utf-8")
    load_script("push").main([str(folder), NAME, "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    size = (folder / "config.json").stat().st_size
    assert f"goes up     config.json ({size:,} bytes)" in lines
    assert len([line for line in lines if line.startswith("goes up")]) == len(MODEL_FILES)
    assert "stays here  .env" in lines
    assert lines[-1] == f"checked     fit for {NAME}; nothing was sent"


def test_push_script_prints_code_that_loads_what_was_pushed(
    folder: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    load_script("push").main([str(folder), NAME, "--commit_message", "Rooms"])
    lines = capsys.readouterr().out.splitlines()
    commit = hub.repositories[NAME].branches["main"]
    assert lines[-5] == f"commit      {commit} of {NAME}"
    assert commit in lines[-1]
    names: dict[str, Any] = {}
    exec("\n".join(lines[-4:]), names)
    assert names["tokenizer"]("the room")["input_ids"]
    assert type(names["model"]) is SelfAttentiveForSequenceClassification
    for name, weight in load_file(folder / "model.safetensors").items():
        assert torch.equal(names["model"].state_dict()[name], weight), name


def test_push_takes_an_encoder_without_labels(folder: Path, hub: Hub) -> None:
    SelfAttentiveModel.from_pretrained(folder).save_pretrained(folder)
    write_owned_card(folder)
    done = push(folder, NAME)
    assert f'AutoModel.from_pretrained("{NAME}", revision="{done.commit}")' in done.loading_code


def test_push_replaces_weights_of_another_form(folder: Path, hub: Hub) -> None:
    """Loading would take the old file rather than the new shards."""
    push(folder, NAME)
    HfApi().upload_file(path_or_fileobj=b"hops", path_in_repo="hops.png", repo_id=NAME)
    model = SelfAttentiveForSequenceClassification.from_pretrained(folder)
    torch.nn.init.constant_(model.classifier.output.bias, 42)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="2KB")
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert "model.safetensors" not in held
    assert "model.safetensors.index.json" in held
    assert len([name for name in held if name.startswith("model-0")]) > 1
    assert held["hops.png"] == b"hops", "all else stays"
    loaded = SelfAttentiveForSequenceClassification.from_pretrained(NAME, revision=done.commit)
    assert loaded.classifier.output.bias.unique().item() == 42


@pytest.mark.parametrize("branch", ["trial", "feature/short"])
def test_push_creates_a_branch_and_leaves_main_alone(folder: Path, hub: Hub, branch: str) -> None:
    push(folder, NAME, revision=branch)
    assert hub.files(NAME).keys() == {".gitattributes"}
    assert hub.files(NAME, branch).keys() >= MODEL_FILES


def test_push_private_refuses_a_public_repository(folder: Path, hub: Hub) -> None:
    """The Hub ignores the wish where a repository exists."""
    push(folder, NAME, private=True)
    assert hub.repositories[NAME].private
    push(folder, f"{OWNER}/open")
    before = dict(hub.repositories[f"{OWNER}/open"].branches)
    with pytest.raises(ValueError, match=r"someone/open exists and is public; make it private"):
        push(folder, f"{OWNER}/open", private=True)
    assert hub.repositories[f"{OWNER}/open"].branches == before


def test_push_needs_license_only_when_asked_to(folder: Path, hub: Hub) -> None:
    """A training run knows none."""
    (folder / "README.md").write_text("# Rooms\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"lacks 2 of the fields .* license: apache-2\.0, langu"):
        push(folder, NAME)
    assert not hub.repositories
    push(folder, NAME, needs_license=False)


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b/c", "a/.."])
def test_push_refuses_a_name_that_is_not_a_repository(folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"Repo id|repo_id"):
        push(folder, name, dry_run=True)


def test_push_script_names_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^push\.py: there is no folder .*nowhere; name the"):
        load_script("push").main([str(tmp_path / "nowhere"), NAME])


@pytest.mark.parametrize(
    ("asked", "status", "way_out"),
    [
        ("create", 403, r"403 Forbidden.*a token that may write there"),
        ("preupload", 404, r"check the names of the repository and the revision"),
        ("commit", 500, r"Nothing changed there; push again when"),
        ("commit", DROP, r"disconnected.*push again when the Hub can be reached"),
    ],
)
def test_push_errors_have_a_way_out_and_no_token(
    folder: Path, hub: Hub, asked: str, status: int, way_out: str
) -> None:
    hub.faults[asked] = status
    with pytest.raises(OSError, match=rf"^cannot push to {NAME}: .*{way_out}") as failed:
        push(folder, NAME)
    assert TOKEN not in str(failed.value)
    assert failed.value.__cause__ is None, "a traceback would show the request with its token"


@pytest.mark.parametrize(
    ("token", "expected"),
    [(READ_TOKEN, r"rights to write.*a token that may"), ("hf_wrong" + "0" * 20, r"log in with")],
)
def test_push_names_a_token_that_may_not_write(
    folder: Path, hub: Hub, token: str, expected: str
) -> None:
    with pytest.raises(OSError, match=expected) as failed:
        push(folder, NAME, token=token)
    assert token not in str(failed.value)
    assert not hub.repositories


def test_push_offline_points_to_dry_run(folder: Path) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with pytest.raises(OSError, match=r"unset HF_HUB_OFFLINE, or give --dry-run"):
        push(folder, NAME)


@pytest.mark.parametrize("fault", [("upload", DROP), ("upload", 500), ("commit", DROP)])
def test_interrupted_push_leaves_the_old_model_whole(
    folder: Path, hub: Hub, fault: tuple[str, int]
) -> None:
    push(folder, NAME)
    old, commit = hub.files(NAME), hub.repositories[NAME].branches["main"]
    change_weights(folder, lambda weights: weights["classifier.output.bias"].add_(1))
    hub.faults = dict([fault])
    with pytest.raises(OSError, match=rf"cannot push to {NAME}"):
        push(folder, NAME)
    assert hub.repositories[NAME].branches["main"] == commit
    assert hub.files(NAME) == old
    hub.faults = {}
    push(folder, NAME)
    new = hub.files(NAME)["model.safetensors"]
    assert new == (folder / "model.safetensors").read_bytes() != old["model.safetensors"]
