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

# fastText's own rate, 0.1, needs more epochs for short texts.
FASTTEXT_RATE = 0.5
FASTTEXT_EPOCHS = (5, 20)

TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")  # whole words and single signs; no label of fastText's


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


def fasttext(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The fastText classifier with pairs of words, on one thread; the epochs are chosen."""
    import fasttext as library

    label = "__label__"
    lines = model.with_suffix(".lines")
    num_labels = max(*train.labels, *validation.labels) + 1

    def fit(rows: Rows, epochs: int) -> Any:
        with lines.open("w", encoding="utf-8") as file:
            for texts, class_id in zip(*rows, strict=True):
                file.write(f"{label}{class_id} {line_of(texts)}\n")
        options = {"lr": FASTTEXT_RATE, "wordNgrams": 2, "thread": 1, "seed": seed, "verbose": 0}
        return library.train_supervised(str(lines), epoch=epochs, **options)

    def predict(trained: Any, texts: Sequence[Sequence[str]]) -> np.ndarray:
        probabilities = np.zeros((len(texts), num_labels))
        names_of_rows, values_of_rows = trained.predict([line_of(row) for row in texts], k=-1)
        for row, names in enumerate(names_of_rows):
            class_ids = [int(name.removeprefix(label)) for name in names]
            probabilities[row, class_ids] = values_of_rows[row]
        sums = probabilities.sum(1, keepdims=True)  # it rounds up
        return np.asarray(probabilities / sums)

    accuracies = {}
    for epochs in FASTTEXT_EPOCHS:
        trained = fit(train, epochs)
        predicted = predict(trained, validation.texts).argmax(1)
        accuracies[epochs] = float((predicted == validation.labels).mean())
    epochs = max(FASTTEXT_EPOCHS, key=accuracies.__getitem__)
    best = fit(together(train, validation), epochs)
    lines.unlink()
    best.save_model(str(model.with_suffix(".bin")))
    settings = {"lr": FASTTEXT_RATE, "epoch": epochs, "validation_accuracies": accuracies}
    weights = best.dim * (len(best.words) + best.bucket + num_labels)
    return Fitted(partial(predict, best), range(num_labels), weights, settings)


def linear(kind: str, train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """A linear model of `linear_baselines`, on all rows."""
    import joblib
    from linear_baselines import columns_of, fit_linear  # imports scikit-learn

    rows = together(train, validation)
    best, settings = fit_linear(kind, columns_of(rows.texts), np.array(rows.labels), seed)
    joblib.dump(best, model.with_suffix(".joblib"))

    def predict(texts: Sequence[Sequence[str]]) -> np.ndarray:
        return np.asarray(best.predict_proba(columns_of(texts)))

    num_features = len(best[0].get_feature_names_out())
    return Fitted(predict, best.classes_, num_features * len(best.classes_), settings)


def together(train: Rows, validation: Rows) -> Rows:
    """Return the rows of both splits."""
    return Rows([*train.texts, *validation.texts], [*train.labels, *validation.labels])


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
        "fasttext": fasttext,
        **{kind: partial(linear, kind) for kind in ("tfidf", "tfidf_characters", "nbsvm")},
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
