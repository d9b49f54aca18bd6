"""The rivals, each in a process of its own that fits, saves, predicts and measures itself.

    python scripts/lab/baselines.py SYSTEM FOLDER SEED VECTORS [VECTORS ...]

FOLDER has train.jsonl, validation.jsonl and test.jsonl: `text`, perhaps `text_pair`, and `label`, a
class id. `static` reads VECTORS, gzip files with a word and its numbers in a line. The program puts
model.* and result.json beside the rows. It imports neither torch nor this package, because the
leaderboard measures the whole process.
"""

import gzip
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
    return Fitted(lambda texts: np.tile(shares, (len(texts), 1)), list(classes), len(shares), {})


def tfidf(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """Logistic regression on TF-IDF of words and pairs of words; the best of four strengths."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = _compared(train.texts)
    options = {"ngram_range": (1, 2), "min_df": 2, "sublinear_tf": True}
    vectorizers = [(str(i), TfidfVectorizer(**options), i) for i in range(texts.shape[1])]
    features = ColumnTransformer(vectorizers, sparse_threshold=1)
    features.fit(texts)
    return _logistic_regression(
        train, validation, model, lambda rows: features.transform(_compared(rows)), features
    )


def static(train: Rows, validation: Rows, seed: int, model: Path, vectors: Sequence[str]) -> Fitted:
    """Logistic regression on means of the word vectors; the best of four strengths."""
    tables = []
    for path in vectors:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = (line.rstrip().split(" ") for line in lines)
            tables.append({word: np.array(row, np.float32) for word, *row in rows if row[1:]})
    sizes = [len(next(iter(table.values()))) for table in tables]

    def mean(text: str) -> Any:
        words = TOKEN.findall(text.lower())
        parts: list[Any] = []
        for table, size in zip(tables, sizes, strict=True):
            known = [table[word] for word in words if word in table]
            parts.append(np.mean(known, axis=0) if known else np.zeros(size, np.float32))
        return np.concatenate(parts)

    def read(rows: Sequence[Sequence[str]]) -> Any:
        means = np.array([[mean(text) for text in row] for row in rows])
        if means.shape[1] == 1:
            return means[:, 0]
        first, second = means[:, 0], means[:, 1]
        return np.hstack([first, second, abs(first - second), first * second])

    return _logistic_regression(train, validation, model, read, tables)


def _logistic_regression(
    train: Rows, validation: Rows, model: Path, read: Callable[..., Any], features: Any
) -> Fitted:
    """Fit on what `read` makes of texts, with the best of four strengths; save with `features`."""
    import joblib
    from sklearn.linear_model import LogisticRegression

    known, held_out = read(train.texts), read(validation.texts)
    tried = [LogisticRegression(C=c, max_iter=1000).fit(known, train.labels) for c in STRENGTHS]
    accuracies = {one.C: float(one.score(held_out, validation.labels)) for one in tried}
    best = max(tried, key=lambda one: accuracies[one.C])
    joblib.dump((features, best), model.with_suffix(".joblib"))
    settings = {"C": best.C, "validation_accuracies": accuracies}
    return Fitted(
        lambda texts: best.predict_proba(read(texts)), best.classes_, best.coef_.size, settings
    )


def _compared(rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the columns that TF-IDF reads, shape (B, 1), or (B, 4) for pairs.

    A linear model cannot compare the texts of a pair. So it gets the second text, and the words
    that only the second, both, and only the first text have.
    """
    if len(rows[0]) == 1:
        return np.array(rows, dtype=object)
    found = []
    for first, second in rows:
        ours, theirs = (WORD.findall(text.lower()) for text in (first, second))
        in_first, in_second = set(ours), set(theirs)
        new = [word for word in theirs if word not in in_first]
        both = [word for word in theirs if word in in_first]
        gone = [word for word in ours if word not in in_second]
        found.append([second, *map(" ".join, (new, both, gone))])
    return np.array(found, dtype=object)


def fasttext(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The fastText classifier with pairs of words, on one thread; the epochs are chosen."""
    import fasttext as library

    lines, label = model.with_suffix(".lines"), "__label__"
    with lines.open("w", encoding="utf-8") as file:
        for texts, class_id in zip(*train, strict=True):
            file.write(f"{label}{class_id} {line_of(texts)}\n")
    num_labels = max(train.labels) + 1

    def predict(trained: Any, texts: Sequence[Sequence[str]]) -> np.ndarray:
        probabilities = np.zeros((len(texts), num_labels))
        found = trained.predict([line_of(row) for row in texts], k=-1)
        for row, (names, values) in enumerate(zip(*found, strict=True)):
            probabilities[row, [int(name.removeprefix(label)) for name in names]] = values
        return np.asarray(probabilities / probabilities.sum(1, keepdims=True))  # it rounds up

    options = {"lr": FASTTEXT_RATE, "wordNgrams": 2, "thread": 1, "seed": seed, "verbose": 0}
    tried = [library.train_supervised(str(lines), epoch=n, **options) for n in FASTTEXT_EPOCHS]
    accuracies = {
        one.epoch: float((predict(one, validation.texts).argmax(1) == validation.labels).mean())
        for one in tried
    }
    best = max(tried, key=lambda one: accuracies[one.epoch])
    lines.unlink()
    best.save_model(str(model.with_suffix(".bin")))
    settings = {"lr": FASTTEXT_RATE, "epoch": best.epoch, "validation_accuracies": accuracies}
    weights = best.dim * (len(best.words) + best.bucket + num_labels)
    return Fitted(partial(predict, best), range(num_labels), weights, settings)


def main(system: str, folder: Path, seed: int, vectors: Sequence[str] = ()) -> None:
    """Fit a system, save it and write its measurements.

    Seconds are those of the processor: of training from the start of the process, imports included,
    to the saved model; of prediction from the texts of the test rows to their probabilities.
    """
    files = (folder / f"{split}.jsonl" for split in ("train", "validation", "test"))
    train, validation, test = map(read_rows, files)
    fit: Any = {"most_frequent": most_frequent, "tfidf": tfidf, "fasttext": fasttext}
    fit["static"] = partial(static, vectors=vectors)
    fitted = fit[system](train, validation, seed, folder / "model")
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
    first, *others = (TOKEN.findall(text.lower()) for text in texts)
    known = set(first)
    second = [f"{'both' if word in known else 'new'}:{word}" for own in others for word in own]
    return " ".join([*first, *second])


def read_rows(file: Path) -> Rows:
    """Read rows with `text`, for pairs `text_pair`, and `label`."""
    rows = list(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    texts = [[row[name] for name in ("text", "text_pair") if name in row] for row in rows]
    return Rows(texts, [row["label"] for row in rows])


def processor_seconds() -> float:
    """Return the processor time of this process and of the children that it waited for."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
