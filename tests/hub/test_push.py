"""`push` and `scripts/push.py`: what goes up, what stays, and what failures leave behind."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights
from huggingface_hub import HfApi, RepoCard, constants
from loopback_hub import DROP, OWNER, TOKEN, Hub
from script_files import load_command
from tiny import tiny_config, tiny_model

from sase_hf import (
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.hub import push, write_model_card
from sase_hf.models.checkpoint import saved_digests
from sase_hf.utils.loading import load_checkpoint

NAME = f"{OWNER}/rooms"
SPACE = f"spaces/{NAME}"  # another repository than the model of this name
CODE = tiny_model(SelfAttentiveForSequenceClassification).code_files()
MODEL_FILES = {path.name for path in CODE} | set(
    "README.md heatmap.svg config.json model.safetensors SHA256SUMS modules.json "  # noqa: SIM905
    "sentence_bert_config.json tokenizer.json tokenizer_config.json".split()
)


def by_command(folder: Path, *words: str) -> None:
    load_command("push").main([str(folder), NAME, *words])


def test_push_sends_the_files_of_a_model_and_nothing_else(folder: Path, hub: Hub) -> None:
    """A run's folder holds pickles, tokens, logs and predictions."""
    private = {"training_args.bin", ".env", "predictions.jsonl", "handler.py", "pytorch_model.bin"}
    private |= {"my_self_attentive.py", "evil.safetensors", "generation_config.json", "other.svg"}
    for name in private:
        (folder / name).write_text(TOKEN, encoding="utf-8")
    (folder / "checkpoint-8").mkdir()
    (folder / "checkpoint-8/config.json").write_text(TOKEN, encoding="utf-8")
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert held.keys() == MODEL_FILES | {".gitattributes"}
    listed = saved_digests(folder)
    for name in MODEL_FILES - {"SHA256SUMS"}:
        content = (folder / name).read_bytes()
        if name == "README.md":
            content = content.replace(b"ORGANISATION/NAME", NAME.encode())
        assert held[name] == content, name
        digest = hashlib.sha256(content).hexdigest()
        assert f"{digest}  {name}\n" in held["SHA256SUMS"].decode()
        assert (digest == listed[name]) == (name != "README.md"), "the card names its repository"
        assert str(folder).encode() not in held[name], name
    assert (
        repr(done) == f"Push(repo_id='{NAME}', url='{hub.address}/{NAME}', commit={done.commit!r})"
    )
    repository = hub.repositories[NAME]
    assert list(repository.messages.values()) == ["initial commit", "Upload model"]


def test_push_space_sends_a_page_and_its_readme_alone(
    folder: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".env").write_text(TOKEN, encoding="utf-8")
    for words in (["--dry_run"], ["--space", "--dry_run"]):
        by_command(folder, *words)
        assert f"checked     fit for {NAME}; nothing was sent" in capsys.readouterr().out
        assert not hub.requests
    by_command(folder, "--space", "--license", "cc0-1.0", "--language", "fr")
    held = hub.files(SPACE)
    assert held.keys() == {"README.md", "index.html", ".gitattributes"}
    assert hub.repositories[SPACE].sdk == "static"
    front = RepoCard(held["README.md"].decode(), ignore_metadata_errors=False).data.to_dict()
    assert front == {"title": "rooms", "sdk": "static", "license": "cc0-1.0"}
    assert b"<bdi>cc0-1.0</bdi>" in held["index.html"]
    assert b"<bdi>fr</bdi>" in held["index.html"]


def test_push_replaces_weights_of_another_form(folder: Path, hub: Hub) -> None:
    """Loading would take the old file rather than the new shards."""
    push(folder, NAME)
    others = ["hops.png", "model_int8.safetensors", "other/model.safetensors"]
    for other in others:
        HfApi().upload_file(path_or_fileobj=b"kept", path_in_repo=other, repo_id=NAME)
    model, _ = load_checkpoint(folder)
    torch.nn.init.constant_(model.classifier.output.bias, 42)
    model.save_pretrained(folder, max_shard_size="2KB")
    write_model_card(folder)
    done = push(folder, NAME)
    assert "model.safetensors" not in hub.files(NAME)
    assert {hub.files(NAME)[other] for other in others} == {b"kept"}, "all else stays"
    loaded = SelfAttentiveForSequenceClassification.from_pretrained(NAME, revision=done.commit)
    assert loaded.classifier.output.bias.unique().item() == 42


def test_push_deletes_the_onnx_export_of_earlier_weights(folder: Path, hub: Hub) -> None:
    """It would answer as another model than the one beside it."""
    push(folder, NAME)
    for name in ("onnx/model.onnx", "onnx/export.json", "my_onnx/model.onnx"):
        HfApi().upload_file(path_or_fileobj=b"earlier", path_in_repo=name, repo_id=NAME)
    push(folder, NAME)
    assert [name for name in hub.files(NAME) if "onnx/" in name] == ["my_onnx/model.onnx"]


def test_push_private_refuses_a_public_repository(folder: Path, hub: Hub) -> None:
    """The Hub ignores the wish where a repository exists."""
    push(folder, NAME)
    before = dict(hub.repositories[NAME].branches)
    with pytest.raises(ValueError, match=r"someone/rooms exists and is public"):
        push(folder, NAME, private=True)
    assert hub.repositories[NAME].branches == before


@pytest.mark.slow
def test_transformers_own_pushes_send_all_that_a_checkpoint_needs(hub: Hub, tmp_path: Path) -> None:
    """With the files that we add, and nothing else of the folder; to the branch asked for."""
    needed = MODEL_FILES - {"heatmap.svg", "tokenizer.json", "tokenizer_config.json"}
    model = SelfAttentiveForSequenceClassification(tiny_config())
    model.save_pretrained(tmp_path)
    (tmp_path / "training_args.bin").write_bytes(b"private")
    with pytest.raises(ValueError, match=r"call model\.push_to_hub\(NAME\)"):
        model.save_pretrained(tmp_path, push_to_hub=True, repo_id=NAME)
    model.push_to_hub(NAME, tags=["rooms"], revision="draft", commit_message="Try")
    assert hub.files(NAME, "draft").keys() == needed | {".gitattributes"}
    assert b"rooms" in hub.files(NAME, "draft")["README.md"]
    model.push_to_hub(f"{NAME}2")
    build_tokenizer(["the room was small"]).push_to_hub(f"{NAME}2")
    assert hub.files(f"{NAME}2").keys() >= MODEL_FILES - {"heatmap.svg", "README.md"}


@pytest.mark.parametrize(
    ("asked", "status", "named"),
    [
        ("create", 403, "403 Forbidden"),
        ("upload", 500, "500"),
        ("commit", DROP, "disconnected"),
        ("offline", 0, "HF_HUB_OFFLINE"),
    ],
)
def test_push_errors_have_a_way_out_and_no_token(
    folder: Path, hub: Hub, monkeypatch: Any, asked: str, status: int, named: str
) -> None:
    hub.faults[asked] = status
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", asked == "offline")
    with pytest.raises(
        OSError, match=rf"^cannot push to {NAME}: .*{named}.*hf auth login"
    ) as failed:
        push(folder, NAME)
    assert TOKEN not in str(failed.value)
    assert failed.value.__cause__ is None, "a traceback would show the request with its token"


def test_push_interrupted_leaves_the_old_model_whole(folder: Path, hub: Hub) -> None:
    push(folder, NAME)
    old, commit = hub.files(NAME), hub.repositories[NAME].branches["main"]
    change_weights(folder, lambda weights: weights["classifier.output.bias"].add_(1))
    write_model_card(folder)
    hub.faults = {"upload": DROP}
    with pytest.raises(OSError, match="cannot push"):
        push(folder, NAME)
    assert hub.repositories[NAME].branches["main"] == commit
    assert hub.files(NAME) == old
    hub.faults = {}
    push(folder, NAME)
    new = hub.files(NAME)["model.safetensors"]
    assert new == (folder / "model.safetensors").read_bytes() != old["model.safetensors"]
