"""Pushes that transformers makes itself: by the trainer and by `save_pretrained`."""

import logging
from pathlib import Path

import pytest
from loopback_hub import OWNER, TOKEN, Hub
from runs import collate, make_rows, train_tiny, write_splits
from tiny import tiny_config
from transformers import TrainingArguments

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.hub import write_model_card
from sase_hf.publishing import CODE, PUBLIC_NAMES
from sase_hf.trainer import SelfAttentiveTrainer

NAME = f"{OWNER}/rooms"
LABELS = {0: "poor", 1: "fair", 2: "good"}
# What a checkpoint cannot do without, and what the stock push leaves behind.
NEEDED = {"config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", *CODE}


def make_trainer(
    folder: Path, labels: dict[int, str] = LABELS, **options: object
) -> SelfAttentiveTrainer:
    """Return a trainer of four updates that saves after every second one, and pushes."""
    settings: dict[str, object] = {
        "max_steps": 4,
        "save_steps": 2,
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "push_to_hub": True,
        "hub_model_id": NAME,
        "hub_token": TOKEN,
        "hub_always_push": True,
    }
    return SelfAttentiveTrainer(
        SelfAttentiveForSequenceClassification(tiny_config(id2label=labels)),
        TrainingArguments(str(folder), **{**settings, **options}),
        train_dataset=make_rows("single_label"),
        data_collator=collate,
    )


def test_a_trainer_pushes_models_and_nothing_else(hub: Hub, tmp_path: Path) -> None:
    """The stock one uploads its folder: predictions, logs, and a pickle with the Hub token."""
    (tmp_path / "predictions.jsonl").write_text(TOKEN, encoding="utf-8")
    trainer = make_trainer(tmp_path)
    trainer.train()
    trainer._finish_current_push()
    assert hub.files(NAME).keys() >= NEEDED, "a checkpoint on the way is whole"
    trainer.push_to_hub(language="en", license="mit")
    messages = list(hub.repositories[NAME].messages.values())
    steps = [f"Training in progress, step {step}" for step in (2, 4)]
    assert sorted(messages) == sorted(["initial commit", *steps, "End of training"])
    for files in hub.repositories[NAME].commits.values():
        assert files.keys() <= PUBLIC_NAMES | {".gitattributes"}
        assert not [name for name, content in files.items() if TOKEN.encode() in content]
    held = hub.files(NAME)
    assert held["model.safetensors"] == (tmp_path / "model.safetensors").read_bytes()
    card = held["README.md"].decode()
    assert "language: en\nlicense: mit\n" in card
    assert f'checkpoint = "{NAME}"' in card


def test_a_run_is_pushed_with_the_card_of_its_results(hub: Hub, tmp_path: Path) -> None:
    """The card is written last, so the last push must come after it; the token stays nowhere."""
    folder = tmp_path / "run"
    files = write_splits(tmp_path)
    options = {"hub_model_id": NAME, "hub_token": TOKEN, "hub_strategy": "end"}
    train_tiny(
        folder, **files, do_eval=True, max_steps=2, eval_strategy="no", push_to_hub=True, **options
    )
    messages = list(hub.repositories[NAME].messages.values())
    assert messages == ["initial commit", "End of training"]
    card = hub.files(NAME)["README.md"].decode()
    assert "| on the validation split | |" in card
    assert f'checkpoint = "{NAME}"' in card
    assert {"tokenizer.json", *NEEDED} <= hub.files(NAME).keys()
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]


@pytest.mark.parametrize("strategy", ["checkpoint", "all_checkpoints"])
def test_a_strategy_that_publishes_pickles_is_refused(tmp_path: Path, strategy: str) -> None:
    """Before the training, not at its first checkpoint."""
    with pytest.raises(ValueError, match=rf"hub_strategy '{strategy}'.*choose 'end' or 'every_"):
        make_trainer(tmp_path, hub_strategy=strategy)


def test_labels_without_names_are_refused_before_the_training(tmp_path: Path) -> None:
    """They would be refused after it, with nothing to be done about it but by hand."""
    with pytest.raises(ValueError, match=r"labels are called LABEL_0, LABEL_1"):
        make_trainer(tmp_path, labels={0: "LABEL_0", 1: "LABEL_1", 2: "good"})


def test_a_push_that_fails_on_the_way_does_not_stop_the_training(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stock trainer goes on as well, but says nothing."""
    trainer = make_trainer(tmp_path)
    hub.faults["commit"] = 500
    with caplog.at_level(logging.WARNING, "sase_hf.pushing_trainer"):
        trainer.train()
        trainer._finish_current_push()
    assert trainer.state.global_step == 4
    assert "a checkpoint was not pushed: " in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("again", [False, True])
def test_save_pretrained_pushes_all_that_a_checkpoint_needs(
    hub: Hub, tmp_path: Path, again: bool
) -> None:
    """It sends what has changed since its first look, before which we write two files."""
    model = SelfAttentiveForSequenceClassification(tiny_config(id2label=LABELS))
    if again:
        model.save_pretrained(tmp_path)
    (tmp_path / "training_args.bin").write_bytes(b"private")
    model.save_pretrained(tmp_path, push_to_hub=True, repo_id=NAME)
    assert hub.files(NAME).keys() == NEEDED | {".gitattributes", "README.md"}


def test_push_to_hub_of_a_model_sends_all_that_a_checkpoint_needs(hub: Hub) -> None:
    """The way that the documentation of transformers shows first."""
    model = SelfAttentiveForSequenceClassification(tiny_config(id2label=LABELS))
    model.push_to_hub(NAME)
    assert hub.files(NAME).keys() >= NEEDED
    tokenizer = build_tokenizer(["the room was small"])
    tokenizer.push_to_hub(NAME)
    assert hub.files(NAME).keys() >= {*NEEDED, "tokenizer.json", "tokenizer_config.json"}


def test_a_card_that_is_there_is_kept(hub: Hub, tmp_path: Path) -> None:
    """The stock trainer writes a draft over it."""
    trainer = make_trainer(tmp_path, hub_strategy="end")
    trainer.save_model(_internal_call=True)
    card = write_model_card(tmp_path)
    card.write_text(card.read_text(encoding="utf-8") + "\nMine.\n", encoding="utf-8")
    trainer.push_to_hub()
    assert hub.files(NAME)["README.md"].decode().endswith("\nMine.\n")
