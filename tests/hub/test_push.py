"""`push` and `scripts/push.py`: what goes up, what stays, and what failures leave behind."""

import hashlib
from pathlib import Path

import pytest
import torch
from checkpoints import change_weights
from huggingface_hub import HfApi, RepoCard
from loopback_hub import DROP, OWNER, TOKEN, Hub
from script_files import load_command
from tiny import tiny_config, tiny_model

from sase_hf import (
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.hub import push, write_model_card
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
    (folder / "checkpoint-8" / "config.json").write_text(TOKEN, encoding="utf-8")
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert held.keys() == MODEL_FILES | {".gitattributes"}
    assert done.left_out == sorted(private | {"checkpoint-8/"})
    for name in MODEL_FILES - {"SHA256SUMS"}:
        content = (folder / name).read_bytes()
        if name == "README.md":  # the card names its repository
            content = content.replace(b"ORGANISATION/NAME", NAME.encode())
        assert held[name] == content, name
        digest = hashlib.sha256(content).hexdigest()
        assert f"{digest}  {name}\n" in held["SHA256SUMS"].decode()
        assert str(folder).encode() not in held[name], name
    assert (done.repo_id, done.url) == (NAME, f"{hub.address}/{NAME}")
    assert done.commit == hub.repositories[NAME].branches["main"]


def test_push_dry_run_lists_everything_and_needs_no_network(
    folder: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".env").write_text(TOKEN, encoding="utf-8")
    by_command(folder, "--dry_run")
    lines = capsys.readouterr().out.splitlines()
    size = (folder / "config.json").stat().st_size
    assert f"goes up     config.json ({size:,} bytes)" in lines
    assert "stays here  .env" in lines
    assert not hub.requests


def test_push_space_sends_a_page_and_its_readme_alone(folder: Path, hub: Hub) -> None:
    (folder / ".env").write_text(TOKEN, encoding="utf-8")
    by_command(folder, "--space", "--dry_run")
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
    """Loading would take the old file rather than the new shards, or an ONNX export of the old."""
    push(folder, NAME)
    others = ["hops.png", "model_int8.safetensors", "other/model.safetensors"]
    for other in (*others, "onnx/model.onnx", "onnx/export.json"):
        HfApi().upload_file(path_or_fileobj=b"kept", path_in_repo=other, repo_id=NAME)
    model, _ = load_checkpoint(str(folder))
    torch.nn.init.constant_(model.classifier.output.bias, 42)
    model.save_pretrained(folder, max_shard_size="2KB")
    write_model_card(folder)
    done = push(folder, NAME)
    held = hub.files(NAME)
    assert not {"model.safetensors", "onnx/model.onnx", "onnx/export.json"} & held.keys()
    assert {held[other] for other in others} == {b"kept"}, "all else stays"
    loaded = SelfAttentiveForSequenceClassification.from_pretrained(NAME, revision=done.commit)
    assert loaded.classifier.output.bias.unique().item() == 42


def test_push_private_refuses_a_public_repository(folder: Path, hub: Hub) -> None:
    """The Hub ignores the wish where a repository exists; a branch leaves main alone."""
    push(folder, NAME)
    before = dict(hub.repositories[NAME].branches)
    with pytest.raises(ValueError, match=r"someone/rooms exists and is public"):
        push(folder, NAME, private=True)
    assert hub.repositories[NAME].branches == before
    other = f"{NAME}2"
    push(folder, other, revision="feature/short", private=True)
    assert hub.repositories[other].private
    assert hub.files(other).keys() == {".gitattributes"}
    assert hub.files(other, "feature/short").keys() >= MODEL_FILES


@pytest.mark.slow
def test_transformers_own_pushes_send_all_that_a_checkpoint_needs(hub: Hub, tmp_path: Path) -> None:
    """With the files that we add, and nothing else of the folder; to the branch asked for."""
    needed = MODEL_FILES - {"heatmap.svg", "tokenizer.json", "tokenizer_config.json"}
    model = SelfAttentiveForSequenceClassification(tiny_config())
    model.save_pretrained(tmp_path)
    (tmp_path / "training_args.bin").write_bytes(b"private")
    with pytest.raises(ValueError, match=r"call model\.push_to_hub\(NAME\)"):
        model.save_pretrained(tmp_path, push_to_hub=True, repo_id=NAME)
    model.push_to_hub(NAME, revision="draft")
    build_tokenizer(["the room was small"]).push_to_hub(NAME)
    assert hub.files(NAME, "draft").keys() == needed | {".gitattributes"}
    assert hub.files(NAME).keys() >= {"tokenizer.json", "tokenizer_config.json"}


def test_transformers_own_push_sends_the_card_of_the_same_weights(folder: Path, hub: Hub) -> None:
    """In the place of an empty card; a card that the Hub has stays."""
    model, _ = load_checkpoint(str(folder))
    model.push_to_hub(NAME, tags=["rooms"])
    held = hub.files(NAME)
    card = RepoCard(held["README.md"].decode())
    text = (folder / "README.md").read_text(encoding="utf-8").replace("ORGANISATION/NAME", NAME)
    assert card.text == RepoCard(text).text
    assert (card.data.license, card.data.tags[-1]) == ("mit", "rooms")
    assert held["heatmap.svg"] == (folder / "heatmap.svg").read_bytes()
    for name in ("README.md", "heatmap.svg"):
        digest = hashlib.sha256(held[name]).hexdigest()
        assert f"{digest}  {name}\n" in held["SHA256SUMS"].decode()
    HfApi().upload_file(path_or_fileobj=b"Mine.", path_in_repo="README.md", repo_id=NAME)
    torch.nn.init.constant_(model.classifier.output.bias, 42)
    for name in (NAME, f"{NAME}2"):
        model.push_to_hub(name)
    assert b"Mine." in hub.files(NAME)["README.md"]
    assert b"automatically generated" in hub.files(f"{NAME}2")["README.md"], "of other weights"
    assert "heatmap.svg" not in hub.files(f"{NAME}2")


def test_push_errors_have_a_way_out_and_no_token(folder: Path, hub: Hub) -> None:
    hub.faults["commit"] = DROP
    expected = rf"^cannot push to {NAME}: .*disconnected.*hf auth login"
    with pytest.raises(OSError, match=expected) as failed:
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
