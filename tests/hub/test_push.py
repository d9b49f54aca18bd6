"""Pushing a checkpoint: what goes up, what stays, and what is refused."""

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights, write_owned_card
from huggingface_hub import HfApi, constants
from loopback_hub import OWNER, TOKEN, Hub
from safetensors.torch import load_file
from script_files import load_script

from sase_hf import (
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.hub import checks, push
from sase_hf.hub.public_files import CODE

NAME = f"{OWNER}/rooms"
OF_A_MODEL = {
    "README.md",
    "config.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    *CODE,
}


# ---- what goes up --------------------------------------------------------------------------------


def test_the_files_of_a_model_go_up_and_nothing_else(folder: Path, hub: Hub) -> None:
    """A run's folder holds pickles, tokens, logs and predictions, which are nobody else's."""
    private = {"training_args.bin", "optimizer.pt", "rng_state.pth", ".env", "notes.pkl"}
    private |= {"trainer_state.json", "predictions.jsonl", "attention.html", "pytorch_model.bin"}
    private |= {"my_self_attentive.py", "evil.safetensors", "manifest.json"}
    for name in private:
        (folder / name).write_text(TOKEN, encoding="utf-8")
    for name in ("runs", "checkpoint-8"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(TOKEN, encoding="utf-8")
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert held.keys() == OF_A_MODEL | {".gitattributes"}
    assert done.publication.left_out == sorted(private | {"runs/", "checkpoint-8/"})
    for name in OF_A_MODEL - {"README.md"}:
        assert held[name] == (folder / name).read_bytes(), name
    for name, content in held.items():
        assert TOKEN.encode() not in content, name
        assert str(folder).encode() not in content, name


def test_a_push_is_one_commit_with_its_message(folder: Path, hub: Hub) -> None:
    """Whoever loads in between gets the old model or the new one, not half of each."""
    done = push(folder, NAME, commit_message="Better rooms")
    repository = hub.repositories[NAME]
    assert list(repository.messages.values()) == ["initial commit", "Better rooms"]
    assert repository.branches["main"] == done.commit


def test_the_card_loads_from_the_repository_and_not_from_a_folder(folder: Path, hub: Hub) -> None:
    """Its examples are written for the folder that a run leaves; a reader copies them elsewhere."""
    push(folder, NAME)
    card = hub.files(NAME)["README.md"].decode()
    assert card.count(f'checkpoint = "{NAME}"\n') == 2
    assert 'checkpoint = "."' not in card
    local = (folder / "README.md").read_text(encoding="utf-8")
    assert local == card.replace(f'"{NAME}"', '"."'), "the folder itself is left alone"


def test_a_dry_run_lists_everything_and_needs_no_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look before the leap, also on a machine that reaches nothing."""

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
    assert len([line for line in lines if line.startswith("goes up")]) == len(OF_A_MODEL) + 1
    assert "stays here  .env" in lines
    assert lines[-1] == f"checked     fit for {NAME}; nothing was sent"


def test_the_last_lines_printed_load_what_was_pushed(
    folder: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are what the next person is sent, so they name the very commit."""
    load_script("push").main([str(folder), NAME, "--commit_message", "Rooms"])
    lines = capsys.readouterr().out.splitlines()
    commit = hub.repositories[NAME].branches["main"]
    assert lines[-5] == f"commit      {commit} of {NAME}, read back and compared"
    assert commit in lines[-1]
    names: dict[str, Any] = {}
    exec("\n".join(lines[-4:]), names)
    assert names["tokenizer"]("the room")["input_ids"]
    assert type(names["model"]) is SelfAttentiveForSequenceClassification
    for name, weight in load_file(folder / "model.safetensors").items():
        assert torch.equal(names["model"].state_dict()[name], weight), name


def test_an_encoder_without_a_head_is_pushed_as_one(tmp_path: Path, hub: Hub) -> None:
    """It has no labels to be named, and another Auto class."""
    tokenizer = build_tokenizer(["the room was small"])
    model = SelfAttentiveForSequenceClassification.config_class(
        vocab_size=len(tokenizer), embedding_size=4, lstm_hidden_size=3, attention_size=2
    )
    SelfAttentiveModel(model).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    write_owned_card(tmp_path)
    done = push(tmp_path, NAME)
    assert f'AutoModel.from_pretrained("{NAME}", revision="{done.commit}")' in done.loading_code


def test_weights_in_several_files_go_up_with_their_index(folder: Path, hub: Hub) -> None:
    """Large models are saved so."""
    model = SelfAttentiveForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="2KB")
    push(folder, NAME)
    parts = [name for name in hub.files(NAME) if name.startswith("model-0")]
    assert len(parts) > 1
    assert "model.safetensors.index.json" in hub.files(NAME)


def test_weights_of_another_form_do_not_stay_beside_the_new_ones(folder: Path, hub: Hub) -> None:
    """Loading would take the old ones."""
    push(folder, NAME)
    model = SelfAttentiveForSequenceClassification.from_pretrained(folder)
    torch.nn.init.constant_(model.classifier.output.bias, 42)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="2KB")
    done = push(folder, NAME)
    assert done.removed == ("model.safetensors",)
    loaded = SelfAttentiveForSequenceClassification.from_pretrained(NAME, revision=done.commit)
    assert loaded.classifier.output.bias.unique().item() == 42


def test_what_is_checked_is_what_is_sent(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that goes on may write the folder while it is looked at."""
    good = (folder / "model.safetensors").read_bytes()
    change_weights(folder, lambda weights: weights["classifier.output.bias"].fill_(torch.nan))
    check = checks._check_card

    def check_and_mend(card: str) -> None:
        check(card)
        (folder / "model.safetensors").write_bytes(good)

    monkeypatch.setattr(checks, "_check_card", check_and_mend)
    with pytest.raises(ValueError, match=r"no finite numbers, in classifier\.output\.bias"):
        push(folder, NAME)
    assert not hub.repositories


def test_a_card_that_names_another_place_loads_from_the_repository(folder: Path, hub: Hub) -> None:
    """As that of a model which was trained further, or was written on Windows."""
    path = folder / "README.md"
    card = path.read_text(encoding="utf-8").replace('checkpoint = "."', 'checkpoint = "old/name"')
    path.write_text(card, encoding="utf-8", newline="\r\n")
    push(folder, NAME)
    sent = hub.files(NAME)["README.md"]
    assert b"old/name" not in sent
    assert sent.count(f'checkpoint = "{NAME}"\r\n'.encode()) == 2


def test_what_else_is_in_the_repository_is_left_there(folder: Path, hub: Hub) -> None:
    """A push adds; a picture that somebody put beside the model stays, and is named."""
    push(folder, NAME)
    HfApi().upload_file(path_or_fileobj=b"hops", path_in_repo="hops.png", repo_id=NAME)
    done = push(folder, NAME)
    assert done.others == (".gitattributes", "hops.png")
    assert hub.files(NAME)["hops.png"] == b"hops"


def test_a_branch_is_made_and_the_main_one_left_alone(folder: Path, hub: Hub) -> None:
    """A trial must not become what everybody loads."""
    push(folder, NAME, revision="trial")
    assert hub.files(NAME).keys() == {".gitattributes"}
    assert hub.files(NAME, "trial").keys() >= OF_A_MODEL


def test_the_name_of_a_branch_may_hold_a_slash(folder: Path, hub: Hub) -> None:
    """It is one name, not a path, in every address."""
    push(folder, NAME, revision="feature/short")
    assert hub.files(NAME, "feature/short").keys() >= OF_A_MODEL


def test_a_tag_is_no_place_to_push_to(folder: Path, hub: Hub) -> None:
    """A branch of the same name would let readers of the tag get something else."""
    push(folder, NAME)
    HfApi().create_tag(NAME, tag="v1")
    before = dict(hub.repositories[NAME].branches)
    with pytest.raises(ValueError, match=r"revision 'v1' is a tag in someone/rooms.*name a branch"):
        push(folder, NAME, revision="v1")
    assert hub.repositories[NAME].branches == before


@pytest.mark.parametrize("revision", ["", "refs/pr/1", "a" * 40])
def test_a_revision_that_is_no_branch_is_refused(folder: Path, hub: Hub, revision: str) -> None:
    """Before a repository is made for it."""
    with pytest.raises(ValueError, match=rf"revision '{revision}' is no name of a branch"):
        push(folder, NAME, revision=revision)
    assert not hub.repositories


@pytest.mark.parametrize(
    ("message", "expected"),
    [(" ", "message is empty"), (f"with {TOKEN}", "message holds what looks like a Hugging Face")],
)
def test_a_message_that_cannot_be_public_is_refused(
    folder: Path, hub: Hub, message: str, expected: str
) -> None:
    """Everybody reads the history of a repository."""
    with pytest.raises(ValueError, match=expected) as told:
        push(folder, NAME, commit_message=message)
    assert TOKEN not in str(told.value)
    assert not hub.repositories


def test_a_private_model_does_not_go_into_a_public_repository(folder: Path, hub: Hub) -> None:
    """The Hub ignores the wish for privacy where a repository is there already."""
    push(folder, NAME, private=True)
    assert hub.repositories[NAME].private
    push(folder, f"{OWNER}/open")
    before = dict(hub.repositories[f"{OWNER}/open"].branches)
    with pytest.raises(ValueError, match=r"someone/open is there and public\. Make it private"):
        push(folder, f"{OWNER}/open", private=True)
    assert hub.repositories[f"{OWNER}/open"].branches == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The script says so in one line, without a traceback."""
    with pytest.raises(SystemExit, match=r"^push\.py: there is no folder .*nowhere; name the"):
        load_script("push").main([str(tmp_path / "nowhere"), NAME])
