"""Pushing a checkpoint: what goes up, what stays, and what is refused."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights, write_owned_card
from huggingface_hub import HfApi, constants
from loopback_hub import OWNER, TOKEN, Hub
from safetensors.torch import load_file
from script_files import load_script

from sase_hf import SelfAttentiveForSequenceClassification, SelfAttentiveModel, build_tokenizer
from sase_hf.hub import push
from sase_hf.publishing import CODE, PUBLIC_NAMES

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
# In parts, so that no scanner takes them for real.
SECRETS = {
    "a Hugging Face token": "hf_" + "aB3" * 11,
    "a GitHub token": "ghp_" + "aB3" * 12,
    "an AWS access key": "AKIA" + "Z3" * 8,
    "an API key": "sk-" + "proj-" + "aB3" * 8,
    "a private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
}


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **fields}), encoding="utf-8")


def replace_text(path: Path, old: str, new: str) -> None:
    """Change what stands in a file, which must stand there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


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
    assert lines[-4] == f"commit      {commit} of {NAME}, read back and compared"
    assert commit in lines[-1]
    names: dict[str, Any] = {}
    exec("\n".join(lines[-3:]), names)
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


def test_a_private_model_does_not_go_into_a_public_repository(folder: Path, hub: Hub) -> None:
    """The Hub ignores the wish for privacy where a repository is there already."""
    push(folder, NAME, private=True)
    assert hub.repositories[NAME].private
    push(folder, f"{OWNER}/open")
    before = dict(hub.repositories[f"{OWNER}/open"].branches)
    with pytest.raises(ValueError, match=r"someone/open is there and public\. Make it private"):
        push(folder, f"{OWNER}/open", private=True)
    assert hub.repositories[f"{OWNER}/open"].branches == before


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_stops_the_push_and_is_not_repeated(folder: Path, name: str, kind: str) -> None:
    """What was public for a minute is public; and an error message is kept in logs."""
    path = folder / name
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] += f" {SECRETS[kind]} "
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^{name}, line 5, holds what looks like {kind}") as told:
        push(folder, NAME, dry_run=True)
    assert SECRETS[kind] not in str(told.value)


def set_auto_map(folder: Path, reference: str) -> None:
    """Let a config say that its model's code lies elsewhere."""
    auto_map = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    change_json(folder / "config.json", auto_map={**auto_map, "AutoModel": reference})


def link_card(folder: Path) -> None:
    """Put a link in the place of the card."""
    target = (folder / "README.md").rename(folder.parent / "elsewhere.md")
    (folder / "README.md").symlink_to(target)


def index_outside(folder: Path) -> None:
    """Write an index of weights that leads out of the folder."""
    index = {"metadata": {}, "weight_map": {"classifier.output.bias": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


OTHER_CODE = r"not what this version of sase_hf writes.*save it with save_pretrained"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), r"no config\.json in .*save_pretrained"),
    "no card": (lambda f: (f / "README.md").unlink(), r"no README\.md in .*write_model_card"),
    "link": (link_card, r"README\.md in .* is no plain file"),
    "changed code": (
        lambda f: (f / "loss_self_attentive.py").write_text("import os\n", encoding="utf-8"),
        rf"^loss_self_attentive\.py: {OTHER_CODE}",
    ),
    "no code": (
        lambda f: (f / "pooling_self_attentive.py").unlink(),
        rf"^pooling_self_attentive\.py: {OTHER_CODE}",
    ),
    "other modules": (
        lambda f: (f / "modules.json").write_text("[]", encoding="utf-8"),
        rf"^modules\.json: {OTHER_CODE}",
    ),
    "code of another repository": (
        lambda f: set_auto_map(f, "else/where--modeling_self_attentive.SelfAttentiveModel"),
        rf"^auto_map in config\.json: {OTHER_CODE}",
    ),
    "no auto_map": (
        lambda f: change_json(f / "config.json", auto_map={}),
        r"^auto_map in config\.json: ",
    ),
    "no JSON": (
        lambda f: (f / "modules.json").write_text("{", encoding="utf-8"),
        r"^modules\.json is no JSON .*save_pretrained",
    ),
    "no licence": (
        lambda f: replace_text(f / "README.md", "license: mit\nlanguage: en\n", ""),
        r"README\.md lacks .* license: apache-2\.0, language: en$",
    ),
    "placeholder": (
        lambda f: replace_text(
            f / "README.md", "## Limits", "## Limits\n[More Information Needed]"
        ),
        r"README\.md still has a placeholder, 'more information needed'; fill it in",
    ),
    "broken front matter": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: [mit"),
        r"the front matter of README\.md cannot be read: ",
    ),
    "unnamed labels": (
        lambda f: change_json(
            f / "config.json",
            id2label={"0": "LABEL_0", "1": "LABEL_1"},
            label2id={"LABEL_0": 0, "LABEL_1": 1},
        ),
        r"labels are called LABEL_0, LABEL_1, .*--label_names.*id2label",
    ),
    "a config that contradicts itself": (
        lambda f: change_json(f / "config.json", num_hops=7),
        r"cannot load .*projection_dim is 24",
    ),
    "another kind of model": (
        lambda f: change_json(f / "config.json", model_type="bert"),
        r"cannot load .*holds a 'bert' model",
    ),
    "NaN": (
        lambda f: change_weights(f, lambda w: w["classifier.output.bias"].fill_(torch.nan)),
        r"no finite numbers, in classifier\.output\.bias",
    ),
    "missing weights": (
        lambda f: change_weights(f, lambda w: w.pop("classifier.output.bias")),
        r"no weights for classifier\.output\.bias",
    ),
    "half the weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"half"),
        r"cannot load ",
    ),
    "no tokenizer": (
        lambda f: [(f / n).unlink() for n in PUBLIC_NAMES if "tokenizer" in n and (f / n).exists()],
        r"cannot load ",
    ),
    "another tokenizer": (
        lambda f: build_tokenizer([" ".join(f"w{i}" for i in range(99))]).save_pretrained(f),
        r"knows 10\d words, the model \d+; put the tokenizer there",
    ),
    "index that leads out": (index_outside, r"index\.json names \.\./secret\.safetensors, which"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_not_fit_to_be_public_is_refused(folder: Path, case: str) -> None:
    """Better here, with a way out, than found by a stranger; and before anything is sent."""
    spoil, expected = UNFIT[case]
    spoil(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=expected):
        push(folder, NAME, dry_run=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rooms", r"'rooms' does not say whose it is; name the repository OWNER/NAME"),
        ("a/b/c", r"'a/b/c' is no name of a repository"),
        ("a/..", r"'a/\.\.' is no name of a repository"),
    ],
)
def test_a_name_that_is_none_is_refused(folder: Path, name: str, expected: str) -> None:
    """Without an owner the Hub would take one by itself."""
    with pytest.raises(ValueError, match=expected):
        push(folder, name, dry_run=True)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The script says so in one line, without a traceback."""
    with pytest.raises(SystemExit, match=r"^push\.py: there is no folder .*nowhere; name the"):
        load_script("push").main([str(tmp_path / "nowhere"), NAME])
