"""The training rows that a classifier keeps: how unlike them a text is, and which are nearest."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import write_owned_card
from runs import QUIET, TINY_MODEL, pair_rows, review_rows
from script_files import load_command
from transformers import AutoModelForSequenceClassification, pipeline

from sase_hf import TextClassifier
from sase_hf.hub.push import check_publishable
from sase_hf.models.checkpoint import list_files
from sase_hf.tasks.labels import neighbours
from sase_hf.utils.loading import load_checkpoint
from sase_hf.visualization import attention_html, attention_text

ROWS = review_rows(90)
TEXTS = [row["text"] for row in ROWS]
LABELS = [row["label"] for row in ROWS]
STRANGE = "zyx wvu tsr"
NAME = "neighbours.safetensors"
OPTIONS = {
    **TINY_MODEL,
    **QUIET,
    "num_train_epochs": 2,
    "learning_rate": 0.02,
    "validation_fraction": 0.3,
    "report": False,
}


def fit(texts: Any = TEXTS, labels: Any = LABELS, **options: Any) -> TextClassifier:
    return TextClassifier(**{**OPTIONS, **options}).fit(texts, labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a run that keeps the texts."""
    path = tmp_path_factory.mktemp("runs") / "model"
    fit(output_dir=path, keep_examples=True)
    return path


def test_familiarity_is_the_share_of_held_out_rows_that_are_as_far(folder: Path) -> None:
    model = TextClassifier.from_pretrained(folder)
    kept: Any = model.model_.neighbours
    texts = [*TEXTS[:5], STRANGE]
    batch = model.tokenizer_(texts, padding=True, return_tensors="pt").to(model.model_.device)
    with torch.no_grad():
        matrices = model.model_.base_model(**batch).sentence_embedding.double().cpu()
    rows = kept.mean + kept.rows / 32 * kept.unit
    nearest = ((matrices[:, None] - rows) / kept.unit).square().mean(-1).sqrt().amin(-1)
    ids = [model.tokenizer_(text)["input_ids"] for text in texts]
    unknown = [row.count(model.tokenizer_.unk_token_id) / len(row) for row in ids]
    assert unknown[-1] > 0 == unknown[0]
    held_out = kept.held_out.double()
    is_as_far = held_out >= (nearest * (1 + torch.tensor(unknown)))[:, None]
    expected = (1 + is_as_far.sum(1)) / 28
    np.testing.assert_allclose(model.familiarity(texts), expected, atol=1e-6)
    assert 1 / 28 <= model.familiarity([STRANGE])[0] < 0.1 < model.familiarity(TEXTS).mean()


def test_pipeline_names_the_nearest_rows_and_the_unknown_words(folder: Path) -> None:
    explain = pipeline("self-attention", model=folder)
    [text] = explain.model.neighbours.texts[0]
    result = explain(text)
    [own, *others] = result["nearest"]
    assert own["text"] == text
    assert own["distance"] < 0.02
    assert own["distance"] < others[0]["distance"] <= others[1]["distance"]
    assert all(near["label"] == LABELS[TEXTS.index(near["text"])] for near in result["nearest"])
    assert result["unknown"] == 0
    assert [result["unknown"] for result in explain([STRANGE, ""])] == [1, 1]


def test_result_says_what_speaks_against_it(folder: Path) -> None:
    explain = pipeline("self-attention", model=folder)
    result = explain(TEXTS[0])
    others = [near | {"label": "other"} for near in result["nearest"]]
    doubted = {**result, "familiarity": 0.031, "unknown": 0.734, "nearest": others}
    for shown in (attention_text(doubted), attention_html(doubted)):
        assert "at most 4 in 100" in shown
        assert "73% of its words are unknown" in shown
        assert "None of the nearest training texts" in shown
        assert f"other: {others[0]['text'][:20]}" in shown


def test_checkpoint_keeps_texts_only_if_it_is_asked_to(folder: Path, tmp_path: Path) -> None:
    kept: Any = load_checkpoint(folder)[0].neighbours
    [text, *_] = kept.texts[0]
    assert text.encode() in (folder / NAME).read_bytes()
    without = fit(output_dir=tmp_path / "model").model_.neighbours
    assert text.encode() not in (tmp_path / "model" / NAME).read_bytes()
    assert without.rows.equal(kept.rows)


def test_checkpoint_without_listed_rows_answers_as_before(folder: Path, tmp_path: Path) -> None:
    model = TextClassifier.from_pretrained(folder)
    model.save_pretrained(tmp_path)
    write_owned_card(tmp_path)
    assert NAME in check_publishable(tmp_path, {})
    content = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content[:-1] + b"\0")
    with pytest.raises(ValueError, match=f"{NAME} in .* is not as it was saved"):
        load_checkpoint(tmp_path)
    listed = tmp_path / "SHA256SUMS"
    listed.rename(tmp_path / "list")
    assert TextClassifier.from_pretrained(tmp_path).model_.neighbours
    (tmp_path / "list").rename(listed)
    (tmp_path / NAME).unlink()
    list_files(tmp_path, [NAME])
    old = TextClassifier.from_pretrained(tmp_path)
    np.testing.assert_array_equal(old.predict_proba(TEXTS), model.predict_proba(TEXTS))
    assert not {"familiarity", "nearest", "unknown"} & old.explain(TEXTS[0]).results.keys()
    with pytest.raises(ValueError, match="keeps no training rows"):
        old.familiarity(TEXTS)


def test_model_forgets_the_rows_when_it_learns(folder: Path, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    ids = torch.tensor([[1, 2]])
    with torch.no_grad():
        model.train()(ids)  # such as with dropout, to see how sure it is
    assert model.eval().neighbours is not None
    model.train()(ids)
    assert model.neighbours is None
    (tmp_path / NAME).write_bytes((folder / NAME).read_bytes())
    model.save_pretrained(tmp_path)
    assert not (tmp_path / NAME).exists(), "rows of other weights"


def test_model_forgets_the_rows_when_it_loads_other_weights(folder: Path) -> None:
    """An adapter, or weights for other labels."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.config.answer_threshold = 0.5
    torch.nn.Sequential(model).load_state_dict({}, strict=False)
    assert model.neighbours is model.config.answer_threshold is None
    other = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=7, ignore_mismatched_sizes=True
    )
    assert other.neighbours is None


def test_kept_rows_are_of_all_labels() -> None:
    labels = torch.tensor([0] * 900 + [1] * 90 + [2] * 3)
    chosen = neighbours._of_all_labels(labels)
    assert labels[chosen].bincount().tolist() == [207, 90, 3]


def test_rows_of_pairs_and_of_several_labels_are_named_as_they_are() -> None:
    pairs = [(row["premise"], row["hypothesis"]) for row in pair_rows(60)]
    several = [[label, "text"] for label in LABELS[:60]]
    model = fit(pairs, several, keep_examples=True, num_train_epochs=1)
    [near, *_] = model.explain(pairs[0]).results["nearest"]
    assert sorted(near["label"]) == several[pairs.index(tuple(near["text"]))]


def test_predict_says_how_many_texts_are_unlike(folder: Path, capsys: Any, tmp_path: Path) -> None:
    texts = [*TEXTS[:3], STRANGE]
    (tmp_path / "new.txt").write_text("\n".join(texts))
    load_command("predict").main([str(folder), str(tmp_path / "new.txt")])
    said = capsys.readouterr()
    familiarity = TextClassifier.from_pretrained(folder).familiarity(texts)
    assert f"{(familiarity < 0.05).mean():.1%} of 4 texts are unlike" in said.err
    assert said.out.endswith(f",{familiarity[-1]:.4f}\n")
