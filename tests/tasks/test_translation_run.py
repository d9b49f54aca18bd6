"""Runs that learn to translate: exact loss, resuming, BLEU, records, recipes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import write_csv, write_jsonl
from runs import in_two_processes, read_lines, same_weights
from tiny_translation import SIZES
from transformers import AutoModelForSeq2SeqLM, pipeline

from sase_hf.tasks import TranslationTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments
from sase_hf.utils.cli import flag_words

WORDS = {"a": "un", "dog": "chien", "cat": "chat", "runs": "court", "sleeps": "dort", ".": "."}
SENTENCES = [f"a {who} {does} ." for who in ("dog", "cat") for does in ("runs", "sleeps")]
PAIRS = [{"en": s, "fr": " ".join(WORDS[w] for w in s.split())} for s in SENTENCES]
PAIRS += [
    {"en": p["en"] + " " + q["en"], "fr": p["fr"] + " " + q["fr"]} for p in PAIRS for q in PAIRS
]


def words_for(folder: Path, **flags: Any) -> list[str]:
    """Return a command line that trains a tiny model on the pairs."""
    train = write_jsonl(folder / "train.jsonl", PAIRS)
    given = {
        "train_file": train,
        "validation_file": train,
        "text_column_names": "en,fr",
        "output_dir": folder / "run",
        "do_train": "true",
        **{name: size for name, size in SIZES.items() if name != "vocab_size"},
        "initializer_range": 0.3,
        "per_device_train_batch_size": 4,
        "max_steps": 4,
        "save_strategy": "no",
        "disable_tqdm": "true",
        **flags,
    }
    return flag_words(given)


def run_words(words: list[str]) -> dict[str, Any]:
    return run(parse_arguments(TranslationTask, words))


def translate(folder: Path, **flags: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    return run_words(words_for(folder, **flags))


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return AutoModelForSeq2SeqLM.from_pretrained(folder / "run").state_dict()


def test_translation_is_learnt_recorded_and_repeated_by_its_checkpoint(tmp_path: Path) -> None:
    """BLEU of 100 on rows that were learnt by heart; the record names how it was computed."""
    outcome = translate(
        tmp_path,
        do_eval="true",
        do_predict="true",
        test_file=tmp_path / "train.jsonl",
        hidden_size=24,
        embedding_size=16,
        maxout_size=16,
        attention_size=16,
        learning_rate=0.02,
        max_steps=90,
        train_sampling_strategy="group_by_length",
    )
    metrics = outcome["metrics"]
    assert metrics["eval_bleu"] == metrics["test_bleu"] == pytest.approx(100)
    assert metrics["eval_loss"] == metrics["eval_nll"] < 0.1
    expected = [{**pair, "translation": pair["fr"]} for pair in PAIRS]
    assert read_lines(tmp_path / "run/predictions.jsonl") == expected
    translator = pipeline("aligned-translation", model=tmp_path / "run")
    assert translator("a cat runs .")["translation_text"] == "un chat court ."


def test_rows_without_a_target_are_translated(tmp_path: Path) -> None:
    """After training, and by the checkpoint; the others are measured."""
    rows = [{"en": "a dog"}, {"en": "a cat", "fr": " "}, {"en": "a cat", "fr": "un chat"}]
    flags = {"test_file": write_jsonl(tmp_path / "new.jsonl", rows), "do_predict": "true"}
    assert "test_bleu" in translate(tmp_path, **flags)["metrics"]
    words = ("train_file", "validation_file", "do_train", "max_steps", "initializer_range", *SIZES)
    trained = {"model_name_or_path": tmp_path / "run", "output_dir": tmp_path / "more"}
    translate(tmp_path, **{**dict.fromkeys(words), **flags, **trained})
    trained_lines, lines = (
        read_lines(tmp_path / name / "predictions.jsonl") for name in ("run", "more")
    )
    assert trained_lines == lines
    assert [line["fr"] for line in lines] == [None, " ", "un chat"]


def test_accumulated_batches_train_as_the_whole_one(tmp_path: Path) -> None:
    """The loss counts the target words of the whole update."""
    flags = {"optim": "sgd", "learning_rate": 0.5, "label_smoothing": 0.2}
    accumulated = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    translate(tmp_path / "whole", **flags)
    translate(tmp_path / "accumulated", **{**flags, **accumulated})
    found, whole = (weights_of(tmp_path / name) for name in ("accumulated", "whole"))
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is multi-threaded, use of fork:DeprecationWarning")
def test_two_processes_train_and_evaluate_as_one(tmp_path: Path) -> None:
    """20 pairs in batches of 3: what fills up the last batches does not count."""
    flags = {
        "optim": "sgd",
        "learning_rate": 0.5,
        "do_eval": "true",
        "train_sampling_strategy": "group_by_length",
        "per_device_eval_batch_size": 3,
        "generation_max_length": 8,
    }
    metrics = translate(tmp_path / "one", **flags)["metrics"]
    folder = tmp_path / "two"
    folder.mkdir()
    words = words_for(folder, **flags, per_device_train_batch_size=2, record=folder / "record.json")
    in_two_processes(run_words, words)
    torch.testing.assert_close(
        weights_of(folder), weights_of(tmp_path / "one"), rtol=1e-5, atol=1e-6
    )
    found = json.loads((folder / "record.json").read_text())["metrics"]
    for name in ("loss", "nll", "bleu"):
        assert found[name] == pytest.approx(metrics[f"eval_{name}"], rel=1e-5)


def test_translation_resumes_where_it_stopped(tmp_path: Path) -> None:
    flags = {"save_strategy": "steps", "save_steps": 2}
    flags["train_sampling_strategy"] = "group_by_length"
    translate(tmp_path, **flags)
    whole = weights_of(tmp_path)
    translate(tmp_path, **flags, resume_from_checkpoint=tmp_path / "run/checkpoint-2")
    assert same_weights(weights_of(tmp_path), whole)


def test_adadelta_is_that_of_the_paper(tmp_path: Path) -> None:
    words = words_for(tmp_path, adadelta="true", learning_rate=1)
    task = parse_arguments(TranslationTask, words)
    optimizer = task.make_trainer(task.assemble(), task.args).create_optimizer()
    assert isinstance(optimizer, torch.optim.Adadelta)
    assert optimizer.param_groups[0].items() >= {"lr": 1, "rho": 0.95, "eps": 1e-6}.items()


def test_training_rows_alone_are_cut(tmp_path: Path) -> None:
    """To pairs with two short sides."""
    setup = parse_arguments(TranslationTask, words_for(tmp_path, max_train_words=4)).assemble()
    ids = setup.tokens["train"]["labels"][:]
    texts = setup.tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert texts == [pair["fr"] for pair in PAIRS[:4]]
    assert len(setup.tokens["validation"]) == len(PAIRS)


def test_file_of_pairs_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "pairs.csv", [{"french": pair["fr"], "en": pair["en"]} for pair in PAIRS])
    task = parse_arguments(TranslationTask, ["--train_file=pairs.csv"])
    assert task.args.output_dir == "runs/pairs-translator"
    setup = task.assemble()
    assert setup.rows.text_columns == ("french", "en")
    assert setup.model.num_parameters() < 5_000_000
    train, held = (setup.rows.splits[name]["text"][:] for name in ("train", "validation"))
    assert (len(train), len(held)) == (len(PAIRS) - 2, 2)
    assert not {*train} & {*held}
