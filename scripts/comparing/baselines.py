"""The rivals, each in a process of its own that fits, saves, predicts and measures itself.

    python -m comparing.baselines SYSTEM ROWS OUTPUT SEED

ROWS has train.jsonl, validation.jsonl and test.jsonl: `texts`, one or two, and `label`, a class id.
It writes into OUTPUT the model, as model.*, and result.json with the `Result`.

Imports neither torch nor this package: the leaderboard measures the whole process.
"""

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from comparing.linear import fit_linear

# Of fastText; its own rate, 0.1, needs more epochs for short texts.
FASTTEXT_RATE = 0.5
FASTTEXT_EPOCHS = (5, 20)

WORD = re.compile(r"[^\W_]+|[^\w\s]|_")  # whole words and single signs; no label of fastText's


class Rows(NamedTuple):
    """Rows of one split: one or two texts, and a class id, of each."""

    texts: list[list[str]]
    labels: list[int]


class Fitted(NamedTuple):
    """A fitted model that is saved.

    Attributes:
        predict: Returns the probabilities of the class ids for B rows of texts, shape (B, C).
        num_parameters: Of the model.
        settings: For the record; those that were chosen among them.
    """

    predict: Callable[[list[list[str]]], np.ndarray]
    num_parameters: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What a process measured; seconds are those of the processor, in user and system mode."""

    training_seconds: float  # from the start of the process, imports included, to the saved model
    prediction_seconds: float  # from the texts of the test rows to their probabilities
    probabilities: list[list[float]]  # of the test rows, shape (B, C)
    num_parameters: int
    settings: dict[str, Any]


def most_frequent(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The frequencies of the training labels, for every text."""
    counts = Counter(train.labels)
    shares = [counts[label] / len(train.labels) for label in range(max(counts) + 1)]
    model.with_suffix(".json").write_text(json.dumps(shares), encoding="utf-8")
    return Fitted(lambda texts: np.tile(shares, (len(texts), 1)), len(shares), {})


def tfidf(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """Logistic regression on TF-IDF of words and pairs of words."""
    import joblib

    fitted = fit_linear(
        columns_of(train.texts), train.labels, columns_of(validation.texts), validation.labels
    )
    joblib.dump((fitted.vectorizers, fitted.classifier), model.with_suffix(".joblib"))
    classes = fitted.classifier.classes_

    def predict(texts: list[list[str]]) -> np.ndarray:
        found = fitted.probabilities(columns_of(texts))
        probabilities = np.zeros((len(texts), classes.max() + 1))
        probabilities[:, classes] = found
        return probabilities

    settings = {"C": fitted.classifier.C, "validation_accuracies": fitted.accuracies}
    return Fitted(predict, fitted.classifier.coef_.size, settings)


def fasttext(train: Rows, validation: Rows, seed: int, model: Path) -> Fitted:
    """The fastText classifier with pairs of words, on one thread; the epochs are chosen."""
    import fasttext as library

    lines = model.with_suffix(".lines")
    label = "__label__"
    with lines.open("w", encoding="utf-8") as file:
        for texts, class_id in zip(*train, strict=True):
            file.write(f"{label}{class_id} {line_of(texts)}\n")
    num_labels = max(train.labels) + 1

    def predictor(trained: Any) -> Callable[[list[list[str]]], np.ndarray]:
        def predict(texts: list[list[str]]) -> np.ndarray:
            probabilities = np.zeros((len(texts), num_labels))
            found = trained.predict([line_of(row) for row in texts], k=-1)
            for row, (names, values) in enumerate(zip(*found, strict=True)):
                classes = [int(name.removeprefix(label)) for name in names]
                probabilities[row, classes] = values
            return probabilities / probabilities.sum(1, keepdims=True)  # it rounds up

        return predict

    accuracies: dict[int, float] = {}
    best: Any = None
    for epochs in FASTTEXT_EPOCHS:
        trained = library.train_supervised(
            str(lines),
            lr=FASTTEXT_RATE,
            epoch=epochs,
            wordNgrams=2,
            thread=1,
            seed=seed,
            verbose=0,
        )
        predicted = predictor(trained)(validation.texts).argmax(1)
        accuracy = float((predicted == validation.labels).mean())
        if best is None or accuracy > max(accuracies.values()):
            best = trained
        accuracies[epochs] = accuracy
    lines.unlink()
    best.save_model(str(model.with_suffix(".bin")))
    weights = best.dim * (len(best.words) + best.bucket + num_labels)
    settings = {"lr": FASTTEXT_RATE, "epoch": best.epoch, "validation_accuracies": accuracies}
    return Fitted(predictor(best), weights, settings)


SYSTEMS: dict[str, Callable[[Rows, Rows, int, Path], Fitted]] = {
    function.__name__: function for function in (most_frequent, tfidf, fasttext)
}


def main(system: str, rows: Path, output: Path, seed: int) -> None:
    """Fit a system, save it and write its `Result`."""
    train, validation, test = (
        read_rows(rows / f"{split}.jsonl") for split in ("train", "validation", "test")
    )
    fitted = SYSTEMS[system](train, validation, seed, output / "model")
    trained = processor_seconds()
    probabilities = fitted.predict(test.texts)
    predicted = processor_seconds()
    result = Result(
        training_seconds=trained,
        prediction_seconds=predicted - trained,
        probabilities=probabilities.tolist(),
        num_parameters=fitted.num_parameters,
        settings=fitted.settings,
    )
    (output / "result.json").write_text(json.dumps(asdict(result)), encoding="utf-8")


def columns_of(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the first texts and, of pairs, the second."""
    return [list(column) for column in zip(*texts, strict=True)]


def line_of(texts: Sequence[str]) -> str:
    """Return the words of a text, and of a second text marked by whether the first has them."""
    first, *others = (WORD.findall(text.lower()) for text in texts)
    known = set(first)
    second = [f"{'both' if word in known else 'new'}:{word}" for own in others for word in own]
    return " ".join([*first, *second])


def read_rows(path: Path) -> Rows:
    """Read the rows of a split."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return Rows([row["texts"] for row in rows], [row["label"] for row in rows])


def processor_seconds() -> float:
    """Return what this process and the children it waited for have used so far."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
