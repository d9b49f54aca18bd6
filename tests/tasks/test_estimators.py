"""`TextClassifier` and `TextRegressor`: a fit is a run of the command, by scikit-learn's rules."""

import copy
import os
import pickle
import random
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset
from loopback_hub import OWNER, Hub
from runs import TINY_MODEL, flags, pair_rows, review_rows, write_rows
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks
from transformers import AutoModelForSequenceClassification, pipeline

from sase_hf import SelfAttentiveConfig, TextClassifier, TextRegressor
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import make_task, parse_arguments
from sase_hf.training.trainer import SelfAttentiveTrainer

ROWS = review_rows(60)
TEXTS = [row["text"] for row in ROWS]
STARS = [{"poor": 1, "fine": 3, "great": 5}[row["label"]] for row in ROWS]
NEW = TEXTS[:7]
SETTINGS = {**TINY_MODEL, "bf16": False, "report_to": "none"}
OPTIONS: dict[str, Any] = {"use_cpu": True, "disable_tqdm": True, "validation_fraction": 0.2}


def tiny(made: Any = TextClassifier, **options: Any) -> Any:
    return made(**{**SETTINGS, **OPTIONS, "num_train_epochs": 1, **options})


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    """Return a classifier that has learnt which number of stars a text tells."""
    return tiny(num_train_epochs=2, learning_rate=0.02).fit(TEXTS, STARS)


def test_classifier_returns_the_labels_as_they_came(fitted: TextClassifier) -> None:
    assert fitted.classes_.tolist() == [1, 3, 5]
    predicted = fitted.predict(NEW)
    assert predicted.tolist() == STARS[:7]
    assert predicted.dtype == np.asarray(STARS).dtype
    assert fitted.score(TEXTS, STARS) > 0.9
    probabilities = fitted.predict_proba(NEW)
    assert probabilities.shape == (7, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (fitted.classes_[probabilities.argmax(1)] == predicted).all()


def test_classifier_gives_each_text_the_answer_it_has_alone(fitted: TextClassifier) -> None:
    together = fitted.predict_proba([*NEW, "", "unknown words only"])
    alone = np.concatenate([fitted.predict_proba([text]) for text in [*NEW, ""]])
    np.testing.assert_allclose(together[:-1], alone, atol=1e-5)


def test_classifier_is_the_model_of_the_command(tmp_path: Path) -> None:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, STARS, strict=True)]
    options = {**SETTINGS, **OPTIONS, "num_train_epochs": 2, "report": False}
    options |= {"train_file": write_rows(tmp_path / "rows.jsonl", rows)}
    outcome = run(parse_arguments(LabelTask, flags(**options, output_dir=tmp_path / "model")))
    model = tiny(num_train_epochs=2).fit(TEXTS, STARS)
    of_command = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    weights = model.model_.state_dict()
    for name, weight in of_command.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    assert model.metrics_["accuracy"] == outcome["metrics"]["eval_accuracy"]


def test_classifier_reads_tables_and_files_as_the_command_does(tmp_path: Path) -> None:
    columns = {"review": TEXTS, "stars": STARS}
    table: Any = Dataset.from_dict(columns).to_pandas()
    model = tiny().fit(table)
    assert model.classes_.tolist() == [1, 3, 5]
    assert model.text_columns_ == ("review",)
    of_dataset = tiny().fit(Dataset.from_dict(columns))
    expected = model.predict_proba(table)
    np.testing.assert_array_equal(of_dataset.predict_proba(NEW), expected[:7])
    path = tmp_path / "reviews.csv"
    table.to_csv(path, index=False)
    of_file = tiny().fit(path)
    assert of_file.classes_.tolist() == ["1", "3", "5"]  # the text of a CSV file
    np.testing.assert_array_equal(of_file.predict_proba(NEW), expected[:7])


def test_classifier_validates_with_the_rows_it_is_given() -> None:
    model = tiny().fit(TEXTS[:40], STARS[:40], validation=(TEXTS[40:], STARS[40:]))
    assert model.record_["sources"]["train"]["rows"] == 40
    assert model.record_["sources"]["validation"]["rows"] == 20
    none = tiny(validation_fraction=0).fit(TEXTS, STARS)
    assert none.metrics_ == {}
    assert none.record_["sources"]["train"]["rows"] == 60


def test_classes_are_in_the_order_of_scikit_learn_whatever_that_of_the_model_is() -> None:
    names = {1: "10", 3: "9", 5: "2"}
    rows = {"text": TEXTS, "label": [names[stars] for stars in STARS]}
    model = tiny().fit(Dataset.from_dict(rows))
    assert list(model.model_.config.id2label.values()) == ["2", "9", "10"]
    assert model.classes_.tolist() == ["10", "2", "9"]
    results: Any = model.explain(NEW).results
    assert model.predict(NEW).tolist() == [result["label"] for result in results]
    scores = [[result["scores"][label] for label in model.classes_] for result in results]
    np.testing.assert_allclose(model.predict_proba(NEW), scores, atol=1e-5)


def test_classifier_learns_several_labels_for_each_text() -> None:
    several = [["good"] if stars > 1 else [] for stars in STARS]
    several[0] = ["bad", "good"]
    model = tiny().fit(TEXTS, several)
    assert model.classes_.tolist() == ["bad", "good"]
    applies = model.predict_proba(NEW) > 0.5
    assert model.predict(NEW) == [model.classes_[row].tolist() for row in applies]


def test_classifier_predicts_a_frame_with_the_index_of_the_texts(fitted: TextClassifier) -> None:
    texts = pd.DataFrame({"text": NEW}, index=[f"row {number}" for number in range(len(NEW))])
    frame = fitted.predict(texts, as_frame=True)
    second, best = np.sort(fitted.predict_proba(NEW))[:, -2:].T
    assert frame.index.tolist() == texts.index.tolist()
    assert frame["label"].tolist() == fitted.predict(NEW).tolist()
    assert frame["confidence"].tolist() == best.tolist()
    assert frame["margin"].tolist() == (best - second).tolist()
    assert fitted.predict(NEW[0]).tolist() == frame["label"].tolist()[:1]


def test_classifier_predicts_the_columns_of_a_table_of_labels() -> None:
    """In their order, which is not that of their names."""
    columns = {"poor": [stars == 1 for stars in STARS], "great": [stars == 5 for stars in STARS]}
    labels = Dataset.from_dict(columns).to_pandas().astype(int)
    model = tiny(num_train_epochs=12, learning_rate=0.02).fit(TEXTS, labels)
    assert model.classes_.tolist() == ["poor", "great"]
    predicted = model.predict(TEXTS)
    assert (predicted == labels.to_numpy()).mean() > 0.9
    assert model.score(TEXTS, predicted) == 1
    assert model.explain(TEXTS[0], target="great").results["target"] == "great"


@pytest.mark.parametrize("dtype", ["bool", "float64"])
def test_classes_have_the_type_of_an_array(dtype: str) -> None:
    """Each is a target of an explanation, whatever its name is."""
    labels = np.array([stars > 1 for stars in STARS]).astype(dtype)
    model = tiny().fit(TEXTS, labels)
    assert model.predict(NEW).dtype == labels.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    for name, target in zip(model.model_.config.id2label.values(), model.classes_, strict=True):
        assert model.explain(NEW[0], target=target).results["target"] == name


def test_classifier_reads_pairs() -> None:
    rows = pair_rows(40)
    pairs = [(row["premise"], row["hypothesis"]) for row in rows]
    labels = [row["label"] for row in rows]
    model = tiny().fit(pairs, labels)
    assert type(model.model_).__name__ == "SelfAttentiveForNLI"
    assert set(model.predict(pairs[:5])) <= set(labels)
    assert model.explain(pairs[0]).results["text"] == list(pairs[0])
    with pytest.raises(ValueError, match=r"\['text_pair'\] not in the dataset"):
        model.predict(NEW)


def test_classifier_starts_from_a_checkpoint_and_keeps_its_labels(
    fitted: TextClassifier, tmp_path: Path
) -> None:
    fitted.save_pretrained(tmp_path)
    rows = [(text, stars) for text, stars in zip(TEXTS, STARS, strict=True) if stars > 1]
    options = {**OPTIONS, "model_name_or_path": tmp_path, "num_train_epochs": 1}
    model = TextClassifier(**options).fit(*zip(*rows, strict=True))
    assert model.classes_.tolist() == [1, 3, 5]
    assert model.classes_.dtype.kind == "i"
    with pytest.raises(ValueError, match=r"fits no .* of .'1', '3', '5'"):
        TextClassifier(**options).fit(TEXTS, [7] * 30 + STARS[30:])


def test_regressor_learns_numbers() -> None:
    model = tiny(TextRegressor).fit(TEXTS, [stars / 2 for stars in STARS])
    assert model.predict(NEW).shape == (7,)
    assert -10 < model.score(TEXTS, STARS) <= 1
    both = np.array([[stars / 2, -stars] for stars in STARS])
    model = tiny(TextRegressor).fit(TEXTS, both)
    texts = pd.Series(NEW, index=list("abcdefg"))
    frame = model.predict(texts, as_frame=True)
    assert frame.index.tolist() == texts.index.tolist()
    np.testing.assert_array_equal(frame, model.predict(NEW))


OTHERS = pd.DataFrame({"topic": ["meal", "room"] * 30, "mood": [0, 1] * 30})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1] * 60, "at least 2"),
        ([stars / 2 for stars in STARS], "'label' are numbers, not all whole; use TextRegressor"),
        ([f"${number}.8" for number in range(60)], "60 different labels in 48 rows|in 60 rows"),
        ([[1, 0], [0, 1]] * 30, r"lists of labels hold \['0', '1'\].*array \(N, C\)"),
        (OTHERS, "row 0 .* column 'topic,mood': .*'meal'"),
        (OTHERS[["mood", "mood"]] + 2, "another name"),
    ],
    ids=str,
)
def test_classifier_refuses_labels_by_the_rules_of_files(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny().fit(TEXTS, labels)


def test_labels_of_a_class_label_are_its_names() -> None:
    ids = [stars // 2 for stars in STARS]
    rows = Dataset.from_dict({"text": TEXTS, "label": ids})
    rows = rows.cast_column("label", ClassLabel(names=["poor", "fine", "great"]))
    model = tiny().fit(rows)
    assert model.classes_.tolist() == ["fine", "great", "poor"]
    assert set(model.predict(rows)) <= {"poor", "fine", "great"}


def test_classifier_names_the_parameter_it_refuses() -> None:
    with pytest.raises(ValueError, match="no parameter num_hop;"):
        TextClassifier(num_hop=3)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        tiny(learning_rate=-1).fit(TEXTS, STARS)


def test_classifier_leaves_out_texts_and_labels_that_are_missing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A quiet fit shows neither a bar nor a line for each epoch."""
    fitted = tiny().fit([*TEXTS[:3], " ", *TEXTS[4:]], [*STARS[:-1], None])
    assert fitted.record_["sources"]["train"]["left_out"] == 2
    shown = capfd.readouterr().err
    assert "epoch" not in shown
    assert "%|" not in shown


@pytest.mark.parametrize("use", ["predict", "predict_proba", "explain", "save_pretrained"])
def test_estimator_must_be_fitted_first(use: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(TextClassifier(), use)(NEW)


def test_explanation_shows_itself(fitted: TextClassifier) -> None:
    text = f"<script>{TEXTS[0]}</script>"
    shown = fitted.explain(text)
    page = shown._repr_html_()
    assert "&lt;" in page
    assert "<script" not in page
    assert repr(shown).startswith("1 ")
    results: Any = fitted.explain(NEW[:2], target=5).results
    assert [result["target"] for result in results] == ["5", "5"]
    with pytest.raises(ValueError, match="target is '7'; the labels are 1, 3, 5"):
        fitted.explain(text, target=7)


def test_saved_classifier_loads_everywhere(fitted: TextClassifier, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    fitted.save_pretrained(folder)
    expected = fitted.predict_proba(NEW)
    loaded = TextClassifier.from_pretrained(folder)
    assert loaded.predict(NEW).tolist() == fitted.predict(NEW).tolist()
    np.testing.assert_array_equal(loaded.predict_proba(NEW), expected)
    classify = pipeline("text-classification", str(folder))
    labels = [answer["label"] for answer in classify(NEW)]
    assert labels == list(map(str, fitted.predict(NEW)))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "rows in memory: 48 rows" in card
    with pytest.raises(ValueError, match=r"is no TextRegressor, but a .*; TextClassifier"):
        TextRegressor.from_pretrained(folder)
    loaded.save_pretrained(tmp_path / "again")
    assert TextClassifier.from_pretrained(tmp_path / "again").classes_.tolist() == [1, 3, 5]


def test_push_sends_the_files_of_a_model_only(fitted: TextClassifier, hub: Hub) -> None:
    done = fitted.push_to_hub(f"{OWNER}/stars", about={"license": "apache-2.0", "language": "en"})
    assert done.commit is not None
    assert done.left_out == []
    loaded = TextClassifier.from_pretrained(f"{OWNER}/stars")
    assert loaded.predict(NEW).tolist() == fitted.predict(NEW).tolist()


def test_fit_that_is_terminated_raises_keyboard_interrupt_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(
        SelfAttentiveTrainer, "train", lambda *_: os.kill(os.getpid(), signal.SIGTERM)
    )
    with pytest.raises(KeyboardInterrupt):
        tiny().fit(TEXTS, STARS)
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) == usual


def test_fit_leaves_no_files_unless_it_is_given_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    tiny().fit(TEXTS, STARS)
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]
    assert not list((tmp_path / "scratch").rglob("*.safetensors"))
    model = tiny(output_dir="mine").fit(TEXTS, STARS)
    assert Path("mine/report.html").is_file()
    with pytest.raises(ValueError, match="--output_dir mine is not empty"):
        model.fit(TEXTS, STARS)


def test_fit_is_repeatable_in_threads_and_leaves_random_numbers_alone() -> None:
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index, union-attr]
    expected = tiny(seed=3).fit(TEXTS, STARS).predict_proba(NEW)
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]  # type: ignore[index, union-attr]
    assert torch.equal(torch.get_rng_state(), states[2])
    with ThreadPoolExecutor(2) as threads:
        fits = [threads.submit(tiny(seed=seed).fit, TEXTS, STARS) for seed in (3, 4)]
    same, other = (fit.result().predict_proba(NEW) for fit in fits)
    np.testing.assert_array_equal(same, expected)
    assert not np.array_equal(other, expected)


@pytest.mark.parametrize("made", [TextClassifier, TextRegressor])
def test_estimator_keeps_the_conventions_of_scikit_learn(made: Any) -> None:
    name = made.__name__
    for check in (
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
    ):
        getattr(estimator_checks, check)(name, made())
    assert is_classifier(made()) == (made is TextClassifier)
    assert is_regressor(made()) == (made is TextRegressor)


def test_docstring_of_the_classifier_names_the_defaults_that_a_fit_has() -> None:
    named = {}
    for block in re.split(r"\n    (?=\w+: )", str(TextClassifier.__doc__)):
        default = re.search(r"\(default:\s+([^;,)]+)", block)
        if default is not None:
            named[block.partition(":")[0]] = default[1]
    task = make_task(LabelTask, {"report": False}, in_memory=["train"])
    config = SelfAttentiveConfig()
    for name, text in named.items():
        value = getattr(task.settings if hasattr(task.settings, name) else task.args, name)
        assert str(getattr(config, name, None) if value is None else value) == text, name


def test_settings_are_changed_by_name() -> None:
    model = TextClassifier(num_hops=3).set_params(num_hops=4, seed=1)
    assert model.get_params() == {"num_hops": 4, "seed": 1}
    assert repr(model) == "TextClassifier(num_hops=4, seed=1)"


def test_copies_of_a_classifier(fitted: TextClassifier) -> None:
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "model_")
    for same in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(same.predict_proba(NEW), fitted.predict_proba(NEW))


@pytest.mark.slow
def test_searches_of_scikit_learn_fit_the_classifier() -> None:
    scores = cross_val_score(tiny(), TEXTS, STARS, cv=2)
    assert scores.shape == (2,)
    search = GridSearchCV(tiny(), {"num_train_epochs": [1, 2]}, cv=2, scoring="neg_log_loss")
    search.fit(np.array(TEXTS), np.array(STARS))
    assert search.predict(NEW).shape == (7,)
