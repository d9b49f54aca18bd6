"""`TextClassifier` and `TextRegressor`: a fit is a run of the command, by scikit-learn's rules."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from runs import QUIET, TINY_MODEL, flags, review_rows, same_weights
from sklearn.base import clone
from sklearn.utils import estimator_checks
from transformers import AutoModelForSequenceClassification, pipeline

from sase_hf import TextClassifier, TextRegressor
from sase_hf.data.batching import rows_for_model
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments

ROWS = review_rows(60)
TEXTS = [row["text"] for row in ROWS]
STARS = [{"poor": 1, "fine": 3, "great": 5}[row["label"]] for row in ROWS]
NEW = TEXTS[:7]
OPTIONS: dict[str, Any] = {**QUIET, "validation_fraction": 0.2}
LEARNING: dict[str, Any] = {"num_train_epochs": 2, "learning_rate": 0.02}


def tiny(made: Any = TextClassifier, **options: Any) -> Any:
    return made(**{**TINY_MODEL, **OPTIONS, "num_train_epochs": 1, **options})


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    """Return a classifier that has learnt which number of stars a text tells."""
    return tiny(**LEARNING).fit(TEXTS, np.array(STARS, "uint8"))


def test_classifier_returns_the_labels_as_they_came(fitted: TextClassifier) -> None:
    assert fitted.classes_.tolist() == [1, 3, 5]
    predicted = fitted.predict(NEW)
    assert predicted.tolist() == STARS[:7]
    assert predicted.dtype == int
    assert fitted.score(TEXTS, STARS) > 0.9
    assert (fitted.classes_[fitted.predict_proba(NEW).argmax(1)] == predicted).all()


def test_classifier_is_the_model_of_the_command(fitted: TextClassifier, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    pd.DataFrame({"text": TEXTS, "label": STARS}).to_json(path, orient="records", lines=True)
    options = {**TINY_MODEL, **OPTIONS, **LEARNING, "report": False, "train_file": path}
    outcome = run(parse_arguments(LabelTask, flags(**options, output_dir=tmp_path / "model")))
    of_command = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert same_weights(of_command.state_dict(), fitted.model_.state_dict())
    assert fitted.metrics_["accuracy"] == outcome["metrics"]["eval_accuracy"]


def test_classifier_reads_tables_and_files_as_the_command_does(tmp_path: Path) -> None:
    table = pd.DataFrame({"review": TEXTS, "stars": STARS})
    model = tiny().fit(table, validation=table)
    assert model.record_["sources"]["validation"]["rows"] == 60
    assert model.text_columns_ == ("review",)
    path = tmp_path / "reviews.csv"
    table.to_csv(path, index=False)
    of_file = tiny().fit(path, validation=path)
    assert of_file.classes_.tolist() == ["1", "3", "5"]  # the text of a CSV file
    np.testing.assert_array_equal(of_file.predict_proba(NEW), model.predict_proba(table)[:7])


def test_classes_are_in_the_order_of_scikit_learn_whatever_that_of_the_model_is() -> None:
    names = {1: "10", 3: "9", 5: "2"}
    model = tiny(class_weights={10: 1, 9: 3, 2: 0.5}).fit(TEXTS, [names[stars] for stars in STARS])
    assert list(model.model_.config.id2label.values()) == ["2", "9", "10"]
    assert model.model_.config.class_weights == [0.5, 3, 1]
    assert model.classes_.tolist() == ["10", "2", "9"]
    scores = model.explain(NEW[0]).results["scores"]
    expected = [scores[label] for label in model.classes_]
    np.testing.assert_allclose(model.predict_proba(NEW[:1])[0], expected, atol=1e-5)


def test_classifier_predicts_a_frame_with_the_index_of_the_texts(fitted: TextClassifier) -> None:
    frame = fitted.predict(pd.DataFrame({"text": NEW}, index=[*"tuvwxyz"]), as_frame=True)
    second, best = np.sort(fitted.predict_proba(NEW))[:, -2:].T
    assert frame.index.tolist() == [*"tuvwxyz"]
    assert frame["label"].tolist() == fitted.predict(NEW).tolist()
    assert frame["confidence"].tolist() == best.tolist()
    assert frame["margin"].tolist() == (best - second).tolist()


def test_classifier_predicts_the_columns_of_a_table_of_labels(tmp_path: Path) -> None:
    """In their order, which is not that of their names."""
    labels = pd.DataFrame({"poor, bad": np.equal(STARS, 1), "great": np.equal(STARS, 5)}).astype(
        int
    )
    model = tiny(num_train_epochs=12, learning_rate=0.02).fit(TEXTS, labels)
    assert model.classes_.tolist() == ["poor, bad", "great"]
    predicted = model.predict(TEXTS)
    assert (predicted == labels.to_numpy()).mean() > 0.9
    model.save_pretrained(tmp_path)
    assert TextClassifier.from_pretrained(tmp_path).score(TEXTS, predicted) == 1


def test_classifier_returns_texts_with_the_blanks_that_they_came_with() -> None:
    """As most came, where some came otherwise."""
    labels = [f" {stars}.0" for stars in STARS]
    assert {*tiny().fit(TEXTS, [str(STARS[0]), *labels[1:]]).classes_} == {*labels}


def test_classifier_reads_pairs() -> None:
    pairs = [(text, "a meal") for text in TEXTS]
    model = tiny(output_dir=None, seed=None).fit(pairs, STARS)  # as if they were not given
    assert type(model.model_).__name__ == "SelfAttentiveForNLI"
    assert model.explain(pairs[0]).results["text"] == [*pairs[0]]
    with pytest.raises(ValueError, match="'text_pair' holds nothing"):
        model.predict(NEW)


def test_classifier_reads_pairs_by_the_names_of_their_columns(tmp_path: Path) -> None:
    """Usual names would have another order."""
    pairs = pd.DataFrame({"answer": TEXTS, "question": "a meal"})
    model = tiny().fit(pairs, STARS)
    model.save_pretrained(tmp_path)
    loaded = TextClassifier.from_pretrained(tmp_path)
    loaded.model_.cpu()
    swapped = loaded.predict_proba(pairs.iloc[:, ::-1])
    np.testing.assert_array_equal(swapped, model.predict_proba(pairs))
    path = str(tmp_path / "pairs.csv")
    pairs.to_csv(path)
    assert rows_for_model(tmp_path, loaded.model_, path).text_columns == (*pairs,)


def test_classifier_starts_from_a_checkpoint_and_keeps_its_labels(
    fitted: TextClassifier, tmp_path: Path
) -> None:
    fitted.save_pretrained(tmp_path)
    options = {**OPTIONS, "model_name_or_path": tmp_path, "num_train_epochs": 1}
    model = TextClassifier(**options).fit(TEXTS, np.minimum(STARS, 3))
    assert model.classes_.tolist() == [1, 3, 5]
    weights = (one.model_.linear_part.word_weight for one in (model, fitted))
    assert torch.equal(*weights), "few new rows would teach other words"
    with pytest.raises(ValueError, match=r"fits no .* of .'1', '3', '5'"):
        TextClassifier(**options).fit(TEXTS, [7] * 30 + STARS[30:])


def test_regressor_learns_numbers() -> None:
    both = np.array([[stars / 10, -stars] for stars in STARS])
    model = tiny(TextRegressor).fit(TEXTS, both)
    texts = pd.Series(NEW, index=list("abcdefg"))
    frame = model.predict(texts, as_frame=True)
    with pytest.raises(ValueError, match="one text, or dicts"):
        model.predict("a.csv")
    assert frame.index.equals(texts.index)
    assert model.explain(NEW[0]).results["nearest"][0]["label"] in both.tolist()
    np.testing.assert_array_equal(frame, model.predict(NEW))


def test_classifier_refuses_numbers() -> None:
    for problem_type in (None, "regression"):
        with pytest.raises(ValueError, match="'label' are numbers, not classes; use TextRegressor"):
            tiny(problem_type=problem_type).fit(TEXTS, [stars / 2 for stars in STARS])


def test_explanation_shows_itself(fitted: TextClassifier) -> None:
    text = f"<script>{TEXTS[0]}</script>"
    page = fitted.explain(text)._repr_html_()
    assert "&lt;" in page
    assert "<script" not in page


def test_saved_classifier_loads_everywhere(fitted: TextClassifier, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    fitted.save_pretrained(folder)
    loaded = TextClassifier.from_pretrained(folder)
    loaded.model_.cpu()  # as the other one, which was fitted with `use_cpu`
    np.testing.assert_array_equal(loaded.predict_proba(NEW), fitted.predict_proba(NEW))
    classify = pipeline("text-classification", str(folder))
    labels = [int(answer["label"]) for answer in classify(NEW)]
    assert labels == fitted.predict(NEW).tolist()
    with pytest.raises(ValueError, match=r"is no TextRegressor, but a .*; TextClassifier"):
        TextRegressor.from_pretrained(folder)
    loaded.model_.config.id2label = {0: "poor", 1: "fine", 2: "great"}
    loaded.save_pretrained(folder)
    assert "poor" in TextClassifier.from_pretrained(folder).classes_


def test_fit_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    tiny().fit(TEXTS, STARS)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_fit_is_repeatable_and_leaves_random_numbers_alone(fitted: TextClassifier) -> None:
    state = torch.get_rng_state()
    again, other = (tiny(seed=seed, **LEARNING).fit(TEXTS, STARS) for seed in (42, 4))
    assert torch.equal(torch.get_rng_state(), state)
    expected = fitted.predict_proba(NEW)
    np.testing.assert_array_equal(again.predict_proba(NEW), expected)
    assert not np.array_equal(other.predict_proba(NEW), expected)


@pytest.mark.parametrize("made", [TextClassifier, TextRegressor])
def test_estimator_keeps_the_conventions_of_scikit_learn(made: Any) -> None:
    name = made.__name__
    for check in (
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_parameters_default_constructible",
        "check_set_params",
    ):
        getattr(estimator_checks, check)(name, made())


def test_copies_of_a_classifier(fitted: TextClassifier) -> None:
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "model_")
    same = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(same.predict_proba(NEW), fitted.predict_proba(NEW))
