"""The accuracy without words that a model learned, and the overlap of two lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import PAIRS, save_checkpoint, script_main
from explanations import learned
from explanations.learned import (
    WordCorpus,
    accuracy_without,
    linear_words,
    load_labelled_texts,
    measure_learned,
    overlaps,
    words_as_frequent,
)
from rows import write_jsonl

from sase_hf.utils.text import Table
from sase_hf.visualization import learned_words
from sase_hf.visualization.learned_words import LearnedLabel, LearnedWord, LearnedWords

ROWS: list[dict[str, Any]] = [
    {"text": "The soup was cold, and nobody came.", "label": "bad"},
    {"text": "Good!", "label": "good"},
    {"text": "A warm place, and the bread was good.", "label": "good"},
    {"text": "?", "label": "good"},
    {"text": "Cold bread.", "label": "bad"},
]


@pytest.fixture(autouse=True)
def with_rare_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, least in (("LEAST_COUNT", 1), ("MIN_ADDED", 0), ("SHOWN_AS_ZERO", 1e-9)):
        monkeypatch.setattr(learned_words, limit, least)


def load(folder: Path, rows: list[dict[str, Any]] = ROWS, **fields: Any) -> Any:
    checkpoint = save_checkpoint(folder / "tiny", **fields)
    return load_labelled_texts(checkpoint, str(write_jsonl(folder / "rows.jsonl", rows)))


def words_of(corpus: WordCorpus, words: Any) -> set[str]:
    return {corpus.names[word] for word in np.flatnonzero(words)}


def test_accuracy_without_words_is_that_of_texts_that_lack_them(tmp_path: Path) -> None:
    texts = load(tmp_path)
    corpus = texts.corpus()
    for removed in ({"cold"}, {"good", "bread", "was"}, set()):
        words = np.array([spelling.lower() in removed for spelling in corpus.names])
        is_right = []
        for text, label in zip(texts.inputs, texts.labels.tolist(), strict=True):
            tokens = texts.reader(text)["tokens"]
            kept = " ".join(token for token in tokens if token.lower() not in removed)
            is_right.append(texts.reader(kept)["label"] == texts.model.config.id2label[label])
        assert accuracy_without(texts, corpus, words) == np.mean(is_right)


def test_words_as_frequent_are_others_whose_counts_are_near() -> None:
    counts = np.array([100, 90, 95, 5, 5, 4, 6, 5])
    words = np.array([True, False, False, True, False, False, False, False])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned, "NUM_NEAR", 2)
        for seed in range(20):
            drawn = words_as_frequent(words, counts, np.random.default_rng(seed))
            places = np.flatnonzero(drawn).tolist()
            assert places[0] in (1, 2)
            assert places[1] in (4, 7)
    all_words = words_as_frequent(np.ones(8, dtype=bool), counts, np.random.default_rng(0))
    assert not all_words.any(), "there are no others"


def test_linear_words_are_those_that_tell_the_labels_apart(tmp_path: Path) -> None:
    labels = {"good": "good", "cold": "bad", "warm": "good", "nobody": "bad"}
    rows = [{"text": f"{word} soup", "label": label} for word, label in labels.items()] * 5
    texts = load(tmp_path, rows)
    corpus = texts.corpus()
    bad, good = linear_words(corpus, texts, num_labels=2, num_words=2)
    assert words_of(corpus, bad) == {"cold", "nobody"}
    assert words_of(corpus, good) == {"good", "warm"}


def test_overlaps_are_shares_of_the_words_in_either_list() -> None:
    def of_words(*lists: str) -> LearnedWords:
        labels = []
        for label, words in zip("ab", lists, strict=True):
            listed = [LearnedWord(word, 1.0, 3) for word in words]
            labels.append(LearnedLabel(label, 1, listed, []))
        return LearnedWords("", 1, labels, 2, Table("", [], []))

    models = {"one": of_words("xy", "x"), "two": of_words("yz", "x"), "three": of_words("xy", "")}
    assert overlaps(models) == pytest.approx({"a": (1 / 3 + 1 + 1 / 3) / 3, "b": 1 / 3})
    assert overlaps({"one": of_words("x", "y")}) == {}


def test_measure_learned_removes_the_words_of_each_label_and_of_all(tmp_path: Path) -> None:
    texts = load(tmp_path, encoder="none")
    options: dict[str, Any] = {"num_words": 2, "random_draws": 2, "seed": 0}
    results, found = measure_learned(texts, texts, **options)
    corpus = texts.corpus()
    sets = []
    for label in found.labels:
        words = {word.word for word in label.words_for}
        assert len(words) == 2
        sets.append(np.array([spelling in words for spelling in corpus.names]))
    metrics = results["metrics"]
    alone = [accuracy_without(texts, corpus, words) for words in sets]
    assert list(results["by_label"]["own"].values()) == alone
    assert metrics["without_own"] == np.mean(alone)
    assert metrics["without_all_own"] == accuracy_without(texts, corpus, sets[0] | sets[1])
    assert {"without_linear", "without_all_random", "removed_own"} <= metrics.keys()
    assert measure_learned(texts, texts, **options)[0] == results
    assert "linear" not in measure_learned(texts, None, **options)[0]["by_label"]


def test_measure_learned_reads_pairs(tmp_path: Path) -> None:
    labelled = zip(PAIRS, ("bad", "good"), strict=True)
    rows = [{"premise": one, "hypothesis": two, "label": label} for (one, two), label in labelled]
    texts = load(tmp_path, rows, is_pair=True)
    results, found = measure_learned(texts, texts, num_words=2, random_draws=1, seed=0)
    assert all(word.word.endswith((" (1st)", " (2nd)")) for word in found.labels[0].words_for)
    assert 0 <= results["metrics"]["without_all_own"] <= 1


def test_load_labelled_texts_refuses_what_has_no_accuracy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tiny does not predict exactly one label"):
        load(tmp_path, problem_type="multi_label_classification")
    with pytest.raises(ValueError, match="has no labels; give --label_column_name"):
        load(tmp_path, [{"text": "Good!"}])
    texts = load(tmp_path, ROWS[:1])
    with pytest.raises(ValueError, match="one label only; give --train_file rows of several"):
        measure_learned(texts, texts, num_words=2, random_draws=1, seed=0)


@pytest.mark.slow
def test_measure_writes_records_of_what_checkpoints_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / f"seed{seed}" for seed in (1, 2)]
    checkpoints = [save_checkpoint(folder, encoder="none") for folder in folders]
    file, record = write_jsonl(tmp_path / "rows.jsonl", ROWS), tmp_path / "record.json"
    words = [f"--file={file}", f"--train_file={file}", f"--record={record}", "--num_words=2"]
    script_main("lab/measure")(["learned", *checkpoints, *words])
    text = record.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    records = json.loads(text)
    assert list(records) == ["seed1", "seed2"]
    for of_checkpoint in records.values():
        assert of_checkpoint["sources"]["validation"]["rows"] == 5
        assert of_checkpoint["overlap"] == {"bad": 1.0, "good": 1.0}, "the same model twice"
        assert of_checkpoint["arguments"]["num_words"] == 2
    lines = capsys.readouterr().out.splitlines()
    accuracy = f"{records['seed1']['metrics']['accuracy']:.3f}"
    assert lines[1].split()[:2] == ["seed1", accuracy]
    assert lines[-1] == "words that two lists for good share: 1.00 of those in either"
