"""The rivals, each in a process of its own that fits, saves, predicts and measures itself.

It is called with the name of a system, a folder and a seed. The folder has train.jsonl,
validation.jsonl and test.jsonl: `text`, perhaps `text_pair`, and `label`, a class id. The program
puts model.* and result.json beside the rows. It imports neither torch nor this package, because the
leaderboard measures the whole process.
"""

import json
import re
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STRENGTHS = (0.3, 1.0, 3.0, 10.0)  # scikit-learn's C: the larger, the less regularisation
# fastText's own rate, 0.1, needs more epochs for short texts.
FASTTEXT_RATE = 0.5
FASTTEXT_EPOCHS = (5, 20)

TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")  # whole words and single signs; no label of fastText's
WORD = re.compile(r"\w+")


class Rows(NamedTuple):
    """Rows of one split: one or two texts, and a class id, of each."""

    texts: Sequence[Sequence[str]]
    labels: Sequence[int]


class Fitted(NamedTuple):
    """A fitted and saved model; `predict` returns the probabilities (B, C) of B rows of texts."""

    predict: Callable[[Sequence[Sequence[str]]], np.ndarray]
    classes: Sequence[int]  # ids of the C classes that the training rows have
    num_parameters: int
    settings: dict[str, Any]  # for the record


def most_frequent(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The frequencies of the training labels, for every text."""
    classes, counts = np.unique(train.labels, return_counts=True)
    shares = counts / counts.sum()
    model.with_suffix(".json").write_text(json.dumps(shares.tolist()), encoding="utf-8")

    def predict(texts: Sequence[Sequence[str]]) -> np.ndarray:
        return np.tile(shares, (len(texts), 1))

    return Fitted(predict, list(classes), len(shares), {})


def tfidf(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """Logistic regression on TF-IDF of words and pairs of words; the best of four strengths."""
    return _tfidf(train, validation, model, analyzer="word", ngram_range=(1, 2))


def tfidf_characters(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The same on 1 to 4 characters, for languages whose words take many endings."""
    return _tfidf(train, validation, model, analyzer="char", ngram_range=(1, 4))


def _tfidf(train: Rows, validation: Rows, model: Path, **units: Any) -> Fitted:
    """Logistic regression on TF-IDF of the `units` of texts, as scikit-learn names them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = _compared(train.texts)
    vectorizers = []
    for column in range(texts.shape[1]):
        vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, **units)
        vectorizers.append((str(column), vectorizer, column))
    features = ColumnTransformer(vectorizers, sparse_threshold=1)
    features.fit(texts)

    def read(rows: Sequence[Sequence[str]]) -> Any:
        return features.transform(_compared(rows))

    return _logistic_regression(train, validation, model, read, features)


def _logistic_regression(
    train: Rows, validation: Rows, model: Path, read: Callable[..., Any], features: Any
) -> Fitted:
    """Fit on what `read` makes of texts, with the best of four strengths; save with `features`."""
    import joblib
    from sklearn.linear_model import LogisticRegression

    known = read(train.texts)
    held_out = read(validation.texts)
    regressions = {}
    accuracies = {}
    for strength in STRENGTHS:
        regression = LogisticRegression(C=strength, max_iter=1000).fit(known, train.labels)
        regressions[strength] = regression
        accuracies[strength] = float(regression.score(held_out, validation.labels))
    strength = max(STRENGTHS, key=accuracies.__getitem__)
    best = regressions[strength]
    joblib.dump((features, best), model.with_suffix(".joblib"))

    def predict(texts: Sequence[Sequence[str]]) -> np.ndarray:
        return np.asarray(best.predict_proba(read(texts)))

    settings = {"C": strength, "validation_accuracies": accuracies}
    return Fitted(predict, best.classes_, best.coef_.size, settings)


def _compared(rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the columns that TF-IDF reads, shape (B, 1), or (B, 4) for pairs.

    A linear model cannot compare the texts of a pair. So it gets the second text, and the words
    that only the second, both, and only the first text have.
    """
    if len(rows[0]) == 1:
        return np.array(rows, dtype=object)
    columns = []
    for first, second in rows:
        words_of_first = WORD.findall(first.lower())
        words_of_second = WORD.findall(second.lower())
        in_first = set(words_of_first)
        in_second = set(words_of_second)
        only_second = " ".join(word for word in words_of_second if word not in in_first)
        both = " ".join(word for word in words_of_second if word in in_first)
        only_first = " ".join(word for word in words_of_first if word not in in_second)
        columns.append([second, only_second, both, only_first])
    return np.array(columns, dtype=object)


def fasttext(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The fastText classifier with pairs of words, on one thread; the epochs are chosen."""
    import fasttext as library

    label = "__label__"
    lines = model.with_suffix(".lines")
    with lines.open("w", encoding="utf-8") as file:
        for texts, class_id in zip(*train, strict=True):
            file.write(f"{label}{class_id} {line_of(texts)}\n")
    num_labels = max(train.labels) + 1

    def predict(trained: Any, texts: Sequence[Sequence[str]]) -> np.ndarray:
        probabilities = np.zeros((len(texts), num_labels))
        names_of_rows, values_of_rows = trained.predict([line_of(row) for row in texts], k=-1)
        for row, names in enumerate(names_of_rows):
            class_ids = [int(name.removeprefix(label)) for name in names]
            probabilities[row, class_ids] = values_of_rows[row]
        return np.asarray(probabilities / probabilities.sum(1, keepdims=True))  # it rounds up

    models = {}
    accuracies = {}
    for epochs in FASTTEXT_EPOCHS:
        models[epochs] = library.train_supervised(
            str(lines),
            epoch=epochs,
            lr=FASTTEXT_RATE,
            wordNgrams=2,
            thread=1,
            seed=seed,
            verbose=0,
        )
        predicted = predict(models[epochs], validation.texts).argmax(1)
        accuracies[epochs] = float((predicted == validation.labels).mean())
    epochs = max(FASTTEXT_EPOCHS, key=accuracies.__getitem__)
    best = models[epochs]
    lines.unlink()
    best.save_model(str(model.with_suffix(".bin")))
    settings = {"lr": FASTTEXT_RATE, "epoch": epochs, "validation_accuracies": accuracies}
    weights = best.dim * (len(best.words) + best.bucket + num_labels)
    return Fitted(partial(predict, best), range(num_labels), weights, settings)


def main(system: str, folder: Path, seed: int) -> None:
    """Fit a system, save it and write its measurements.

    Seconds are those of the processor: of training from the start of the process, imports included,
    to the saved model; of prediction from the texts of the test rows to their probabilities.
    """
    train = read_rows(folder / "train.jsonl")
    validation = read_rows(folder / "validation.jsonl")
    test = read_rows(folder / "test.jsonl")
    systems: dict[str, Callable[[Rows, Rows, int, Path], Fitted]] = {
        "most_frequent": most_frequent,
        "tfidf": tfidf,
        "tfidf_characters": tfidf_characters,
        "fasttext": fasttext,
    }
    fitted = systems[system](train, validation, seed, folder / "model")
    trained = processor_seconds()
    probabilities = fitted.predict(test.texts)
    result = {
        "training_seconds": trained,
        "texts_per_second": len(test.texts) / (processor_seconds() - trained),
        "probabilities": probabilities.tolist(),
        "classes": [int(class_id) for class_id in fitted.classes],
        "num_parameters": fitted.num_parameters,
        "config": fitted.settings,
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def line_of(texts: Sequence[str]) -> str:
    """Return the words of a text, and of a second text marked by whether the first has them."""
    words = TOKEN.findall(texts[0].lower())
    in_first = set(words)
    for text in texts[1:]:
        for word in TOKEN.findall(text.lower()):
            mark = "both" if word in in_first else "new"
            words.append(f"{mark}:{word}")
    return " ".join(words)


def read_rows(file: Path) -> Rows:
    """Read rows with `text`, for pairs `text_pair`, and `label`."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    texts = [[row[name] for name in ("text", "text_pair") if name in row] for row in rows]
    return Rows(texts, [row["label"] for row in rows])


def processor_seconds() -> float:
    """Return the processor time of this process and of the children that it waited for."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    return seconds


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
