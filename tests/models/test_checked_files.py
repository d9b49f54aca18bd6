"""A checkpoint is one list of files: one that is not as it was saved is refused by every way in."""

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoints import TEXTS, change_json, save_checkpoint
from tiny import ON_BERT, save_both, tiny_model
from tiny_translation import save_translator
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TokenizersBackend,
    pipeline,
)

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.hub import push
from sase_hf.serving.html_export import live_page
from sase_hf.utils.loading import load_checkpoint, load_encoder, load_pipeline

REFUSED = "{} in .* is not as it was saved.*delete SHA256SUMS, then load .*save_pretrained"


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def config_with(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", lambda config: config.update(fields))


def vocabulary_by(
    edit: Callable[[dict[str, int]], Mapping[str, int]],
) -> Callable[[Path], None]:
    """Replace the vocabulary in tokenizer.json by what a function makes of it."""

    def act(folder: Path) -> None:
        change(
            folder / "tokenizer.json", lambda c: c["model"].update(vocab=edit(c["model"]["vocab"]))
        )

    return act


def shuffled(vocabulary: dict[str, int]) -> dict[str, int]:
    special, words = list(vocabulary)[:2], list(vocabulary)[2:]
    random.Random(0).shuffle(words)
    return {word: index for index, word in enumerate([*special, *words])}


Spoil = Callable[[Path], Any]
LABELS_REVERSED = {"id2label": {"0": "good", "1": "bad"}, "label2id": {"good": 0, "bad": 1}}
FOREIGN: dict[str, tuple[Spoil, str]] = {
    "tokenizer of another model": (
        lambda f: build_tokenizer(["other words"]).backend_tokenizer.save(
            str(f / "tokenizer.json")
        ),
        "tokenizer.json",
    ),
    "words shuffled": (vocabulary_by(shuffled), "tokenizer.json"),
    "without what its tokens mean": (
        lambda f: (f / "tokenizer_config.json").unlink(),
        "tokenizer_config.json",
    ),
    "file of an older tokenizer": (
        lambda f: (f / "special_tokens_map.json").write_text('{"unk_token": "good"}'),
        "special_tokens_map.json",
    ),
    "labels reversed": (config_with(**LABELS_REVERSED), "config.json"),
    "problem_type": (config_with(problem_type="multi_label_classification"), "config.json"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_part_is_refused_by_every_way_in(kind: str, folder: Path) -> None:
    """Its name and the way out are in one line."""
    spoil, name = FOREIGN[kind]
    spoil(folder)
    message = REFUSED.format(re.escape(name))
    ways = (
        load_checkpoint,
        load_encoder,
        load_pipeline,
        AutoModel.from_pretrained,
        lambda path: push(path, "owner/name", dry_run=True),
        live_page,
    )
    for load in ways:
        with pytest.raises(ValueError, match=message) as refused:
            load(folder)
        assert "\n" not in str(refused.value)
    # transformers puts the error into a longer one of its own.
    with pytest.raises(ValueError, match=message):
        pipeline("text-classification", model=str(folder))


def test_foreign_part_of_a_translator_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        save_translator(tmp_path, TEXTS)
        load_checkpoint(tmp_path)
        change(tmp_path / name, lambda content: content.update(decoder_start_token_id=3))
        with pytest.raises(ValueError, match=f"{name} in .* is not as it was saved"):
            load_checkpoint(tmp_path)


@pytest.mark.parametrize("count", [1, 0])
def test_layers_that_the_config_of_an_inner_encoder_does_not_count_are_refused(
    count: int, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path, **ON_BERT)
    change_json(tmp_path / "config.json", encoder_config={"num_hidden_layers": count})
    with pytest.raises(ValueError, match=rf"reads encoder\..*layer\.{count}\."):
        load_checkpoint(tmp_path)


LEGITIMATE: dict[str, Spoil] = {
    "tokenizer saved": lambda f: AutoTokenizer.from_pretrained(f).save_pretrained(f),
    "card edited": lambda f: (f / "README.md").write_text("Mine."),
    "another file": lambda f: (f / "notes.json").write_text("{}"),
    "tokenizer gone": lambda f: (f / "tokenizer.json").unlink(),
    "list gone": lambda f: ((f / "SHA256SUMS").unlink(), vocabulary_by(shuffled)(f)),
}


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_change_on_purpose_is_loaded(kind: str, folder: Path) -> None:
    LEGITIMATE[kind](folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.id2label[1] == "good"
    if kind != "tokenizer gone":
        load_checkpoint(folder)


def test_tokenizer_that_another_program_saves_is_not_listed(folder: Path, tmp_path: Path) -> None:
    """As in a training without the package, which saves into one folder again and again."""
    model, tokenizer = load_checkpoint(folder)
    for lengths in (False, True):
        model.save_pretrained(tmp_path / "new")
        tokenizer(TEXTS, padding=lengths)
        TokenizersBackend.save_pretrained(tokenizer, tmp_path / "new")
        load_checkpoint(tmp_path / "new")


def test_weights_keep_a_listed_tokenizer(folder: Path) -> None:
    model, _ = load_checkpoint(folder)
    model.save_pretrained(folder)
    vocabulary_by(shuffled)(folder)
    with pytest.raises(ValueError, match=r"tokenizer\.json in .* is not as it was saved"):
        load_checkpoint(folder)


def test_changes_in_python_are_saved_and_loaded(folder: Path, tmp_path: Path) -> None:
    """New labels, more words, another classifier: no save is refused afterwards."""
    model, tokenizer = load_checkpoint(folder)
    model.config.id2label, model.config.label2id = {0: "no", 1: "yes"}, {"no": 0, "yes": 1}
    tokenizer.add_tokens(["unheard"])
    model.resize_token_embeddings(len(tokenizer))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "changed")
    changed, tokenizer = load_checkpoint(tmp_path / "changed")
    assert changed.config.id2label == {0: "no", 1: "yes"}
    assert changed.config.vocab_size == len(tokenizer)
    SelfAttentiveForNLI.from_pretrained(tmp_path / "changed", ignore_mismatched_sizes=True)


def test_list_names_every_file_in_the_form_of_sha256sum(folder: Path) -> None:
    """Also each shard."""
    model, tokenizer = load_checkpoint(folder)
    save_both(folder / "again", model, tokenizer, max_shard_size="2KB")
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum here")
    words = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    for listed in (folder, folder / "again"):
        said = subprocess.run(words, cwd=listed, capture_output=True, text=True, check=True).stdout
        names = {path.name for path in listed.iterdir() if path.is_file()} - {"SHA256SUMS"}
        assert set(said.splitlines()) == {f"{name}: OK" for name in names}


def test_layers_that_an_own_encoder_does_not_count_are_refused(tmp_path: Path) -> None:
    """Also by a base model and by another head; a head's own parts may stay unread."""
    model = tiny_model(SelfAttentiveForSequenceClassification, num_lstm_layers=2)
    model.save_pretrained(tmp_path)
    SelfAttentiveModel.from_pretrained(tmp_path)
    change_json(tmp_path / "config.json", num_lstm_layers=1)
    for head in (SelfAttentiveForSequenceClassification, SelfAttentiveModel, SelfAttentiveForNLI):
        with pytest.raises(ValueError, match=r"reads encoder\.token_encoder\.layers\.1\."):
            head.from_pretrained(tmp_path, ignore_mismatched_sizes=True)
