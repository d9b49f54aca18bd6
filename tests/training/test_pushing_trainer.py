"""Pushes that transformers makes itself: by the trainer and by `save_pretrained`."""

import logging
import time
from pathlib import Path

import pytest
from huggingface_hub import HfApi, ModelCard
from loopback_hub import OWNER, TOKEN, Hub
from runs import collate, make_rows, train_tiny, write_splits
from tiny import tiny_config
from transformers import TrainingArguments

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.hub import write_model_card
from sase_hf.hub.public_files import CODE, PUBLIC_NAMES
from sase_hf.training.trainer import SelfAttentiveTrainer

NAME = f"{OWNER}/rooms"
QUIET = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
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
        **QUIET,
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
    assert messages == ["initial commit", *steps, "End of training"]
    for files in hub.repositories[NAME].commits.values():
        assert files.keys() <= PUBLIC_NAMES | {".gitattributes"}
        assert not [name for name, content in files.items() if TOKEN.encode() in content]
    held = hub.files(NAME)
    assert held["model.safetensors"] == (tmp_path / "model.safetensors").read_bytes()
    card = held["README.md"].decode()
    assert "language: en\nlicense: mit\n" in card
    assert f'checkpoint = "{NAME}"' in card


def test_pushes_arrive_in_the_order_of_the_training(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run beside it, and a slow early one must not become the last word."""
    upload, waits = HfApi.preupload_lfs_files, [1.0]

    def upload_slowly(*args: object, **kwargs: object) -> None:
        time.sleep(waits.pop() if waits else 0)
        upload(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(HfApi, "preupload_lfs_files", upload_slowly)
    trainer = make_trainer(tmp_path)
    trainer.train()
    trainer._finish_current_push()
    repository = hub.repositories[NAME]
    assert not waits, "the premise: the first one was slow"
    assert repository.messages[repository.branches["main"]] == "Training in progress, step 4"


def test_the_arguments_decide_token_branch_and_privacy(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is logged in as nobody."""
    monkeypatch.delenv("HF_TOKEN")
    trainer = make_trainer(tmp_path, hub_revision="trial", hub_private_repo=True)
    trainer.train()
    trainer.push_to_hub()
    repository = hub.repositories[NAME]
    assert repository.private
    assert hub.files(NAME).keys() == {".gitattributes"}
    assert hub.files(NAME, "trial").keys() >= NEEDED


def test_a_private_model_does_not_go_into_a_public_repository(hub: Hub, tmp_path: Path) -> None:
    """Neither by the arguments, told before the training, nor by the call at its end."""
    HfApi().create_repo(NAME)
    with pytest.raises(ValueError, match=r"someone/rooms is there and public"):
        make_trainer(tmp_path / "a", hub_private_repo=True)
    trainer = make_trainer(tmp_path / "b")
    with pytest.raises(ValueError, match=r"someone/rooms is there and public"):
        trainer.push_to_hub(private=True)
    assert hub.files(NAME).keys() == {".gitattributes"}


def test_the_call_of_the_example_scripts_of_transformers_works(hub: Hub, tmp_path: Path) -> None:
    """They end with these arguments; what a card has a field for is in it."""
    trainer = make_trainer(tmp_path, hub_strategy="end")
    trainer.push_to_hub(
        finetuned_from="someone/base",
        tasks="text-classification",
        dataset_tags="someone/data",
        dataset="Data",
        tags=["hotel"],
    )
    card = ModelCard(hub.files(NAME)["README.md"].decode()).data
    assert (card.base_model, card.datasets) == ("someone/base", ["someone/data"])
    assert card.tags is not None
    assert card.tags[-1] == "hotel"
    assert "self-attention" in card.tags


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


def test_labels_without_names_do_not_go_up_later_either(hub: Hub, tmp_path: Path) -> None:
    """A push that nobody announced is a push."""
    labels = {0: "LABEL_0", 1: "LABEL_1", 2: "good"}
    trainer = make_trainer(tmp_path, labels=labels, push_to_hub=False)
    with pytest.raises(ValueError, match=r"labels are called LABEL_0, LABEL_1"):
        trainer.push_to_hub()


def test_a_model_may_be_made_by_the_trainer(hub: Hub, tmp_path: Path) -> None:
    """A search of hyperparameters makes one for each trial."""
    trainer = SelfAttentiveTrainer(
        None,
        TrainingArguments(str(tmp_path), push_to_hub=True, hub_model_id=NAME, **QUIET),
        model_init=lambda: SelfAttentiveForSequenceClassification(tiny_config(id2label=LABELS)),
        train_dataset=make_rows("single_label"),
        data_collator=collate,
    )
    trainer.push_to_hub()
    assert hub.files(NAME).keys() >= NEEDED


def test_a_secret_is_told_and_does_not_stop_the_training(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hours of work are worth more than a push that can be made again."""
    trainer = make_trainer(tmp_path, labels={0: "poor", 1: TOKEN, 2: "good"})
    with caplog.at_level(logging.WARNING, "sase_hf.training.pushing_trainer"):
        trainer.train()
    assert trainer.state.global_step == 4
    assert "config.json, line" in caplog.text
    assert TOKEN not in caplog.text
    with pytest.raises(ValueError, match=r"holds what looks like a Hugging Face token"):
        trainer.push_to_hub()
    assert hub.files(NAME).keys() == {".gitattributes"}


def test_the_last_push_says_what_to_do_if_it_fails(hub: Hub, tmp_path: Path) -> None:
    """The training is over, and the model lies in its folder."""
    trainer = make_trainer(tmp_path, hub_strategy="end")
    hub.faults["commit"] = 403
    with pytest.raises(OSError, match=r"take a token that may write there") as told:
        trainer.push_to_hub()
    assert TOKEN not in str(told.value)


def test_a_push_that_fails_on_the_way_does_not_stop_the_training(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The stock trainer goes on as well, but says nothing."""
    trainer = make_trainer(tmp_path)
    hub.faults["commit"] = 500
    with caplog.at_level(logging.WARNING, "sase_hf.training.pushing_trainer"):
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
