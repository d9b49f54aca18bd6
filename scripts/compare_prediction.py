"""Compare how fast a trained model and what people use instead predict labels, and how well.

    python scripts/train.py --train_file data/yelp5.train.jsonl.gz --output_dir runs/yelp5
    python scripts/compare_prediction.py runs/yelp5 data/yelp5.train.jsonl.gz
        data/yelp5.dev.jsonl.gz --word_vectors data/vectors/potion.128d.txt.gz

Let the test file have rows by which nothing was chosen; strengths and epochs are chosen on a tenth
of the training file.

The checkpoint predicts in float32, in bfloat16, and exported to ONNX in float32 and int8. Beside it
are fitted on the training file: TF-IDF of one and two words, and the mean of static word vectors,
each with logistic regression, and fastText with pairs of words. A Transformer of the shape of
MiniLM (6 layers of 384) with random weights in bfloat16 shows the speed of such an encoder, and no
accuracy; it reads the words of our tokenizer, of which its own would make more pieces.

Everything reads the same texts in turn, from texts to labels; the words of fastText are cut in
Python. The seconds are those of the processor. Files have the columns `text` and `label`. What is
not installed is left out, with a line that says so: pip install 'sase_hf[leaderboard,onnx]'
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.timing import in_turn, quartiles, speedup
from comparing.baselines import Fitted, Rows, fasttext, processor_seconds, tfidf
from comparing.linear import STRENGTHS
from transformers import BertConfig, BertForSequenceClassification

from sase_hf import build_tokenizer, load_word_vectors
from sase_hf.data.arguments import DataArguments
from sase_hf.data.batching import batches_by_length
from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.data.splits import load_task
from sase_hf.data.word_vectors import read_words
from sase_hf.embedding.embedder import DEFAULT_BATCH_TOKENS
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.serving.onnx_export import NEEDED, export
from sase_hf.serving.onnx_predictor import Predictor
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import load_checkpoint
from sase_hf.utils.tables import Table, table_lines

Predict = Callable[[Sequence[str]], np.ndarray]  # texts -> class ids

OURS = "sase_hf, float32"
MINILM: dict[str, Any] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
MINILM_TOKENS = 256  # it cuts longer texts


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, predict in turn, print the table and write the record."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a model of one label per text, trained on the training file")
    add("train_file", help="what the others are fitted on")
    add("test_file", help="what all predict")
    add("--word_vectors", metavar="FILE", help="static word vectors; without, they are left out")
    add("--num_texts", type=positive_int, default=2000, help="predict the first ones (2000)")
    add("--rounds", type=positive_int, default=5, help="(default: 5)")
    add("--seed", type=int, default=42, help="of fastText and of the validation rows (42)")
    add("--record", type=Path, help="JSON file for the results, with settings and hardware")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.record)
        torch.set_num_threads(1)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        record = compare(flags)
        heads = ["", "texts/s", "of float32", "accuracy", "same labels"]
        rows = [
            [
                name,
                f"{way['texts_per_second']['median']:,.0f}",
                f"{way['times_float32']['median']:.2f}",
                f"{way['accuracy']:.1%}" if "accuracy" in way else "-",
                f"{way['same_labels']:.1%}" if "same_labels" in way else "-",
            ]
            for name, way in record["ways"].items()
        ]
        print(*table_lines(Table(record["name"], heads, rows)), sep="\n")
        if flags.record is not None:
            write_record(record, flags.record)
            print(f"record  {flags.record}")


def compare(flags: argparse.Namespace) -> dict[str, Any]:
    """Return the record: for each way its speed and accuracy, in `ways`."""
    started = time.perf_counter()
    model, tokenizer = load_checkpoint(flags.checkpoint)
    has_one_label = model.config.problem_type in (None, SINGLE_LABEL)
    if not has_one_label or model.reads_pairs or not hasattr(model, "classifier"):
        raise ValueError(
            f"{flags.checkpoint} is a {type(model).__name__}; the others predict one label of one "
            "text, so name a checkpoint that does"
        )
    names = [name for _, name in sorted(model.config.id2label.items())]
    task = load_task(
        DataArguments(
            train_file=flags.train_file,
            test_file=flags.test_file,
            text_column_names=["text"],
            label_names=names,
            validation_fraction=0.1,
            shuffle_seed=flags.seed,
            max_predict_samples=flags.num_texts,
        )
    )
    parts = {
        name: Rows([[text] for text in rows["text"][:]], rows["label"][:])
        for name, rows in task.splits.items()
    }
    texts, labels = task.splits["test"]["text"][:], np.array(task.splits["test"]["label"][:])
    with tempfile.TemporaryDirectory() as folder:
        ways = dict(_ways(flags, model, tokenizer, parts, Path(folder)))
        predicted = {name: predict(texts) for name, predict in ways.items()}

        cases = {name: partial(_seconds, predict, texts) for name, predict in ways.items()}
        times = in_turn(cases, flags.rounds, seconds=600)
    measured: dict[str, dict[str, Any]] = {}
    for name, taken in times.items():
        measured[name] = {
            "texts_per_second": quartiles([len(texts) / value for value in taken]),
            "times_float32": speedup(times, OURS, name),
        }
        if "MiniLM" not in name:
            measured[name]["accuracy"] = float((predicted[name] == labels).mean())
        if name.startswith("sase_hf"):
            measured[name]["same_labels"] = float((predicted[name] == predicted[OURS]).mean())
    record = measured_record(
        name=f"prediction on {Path(flags.test_file).name}",
        metrics={"accuracy": measured[OURS]["accuracy"]},
        split="test",
        sources=task.sources,
        seed=flags.seed,
        arguments={name: value for name, value in vars(flags).items() if name != "record"},
        config=model.config,
        num_parameters=model.num_parameters(),
        wall_seconds=time.perf_counter() - started,
    )
    return record | {"ways": measured, "rounds": len(times[OURS])}


def _ways(
    flags: argparse.Namespace, model: Any, tokenizer: Any, parts: dict[str, Rows], folder: Path
) -> Iterator[tuple[str, Predict]]:
    """Yield the name of each way to predict, and the function."""
    train, validation = parts["train"], parts["validation"]
    for package, title, fit in (
        ("sklearn", "TF-IDF, logistic regression", tfidf),
        ("fasttext", "fastText, bigrams", fasttext),
    ):
        if importlib.util.find_spec(package) is None:
            print(f"left out: {title}, which needs {package}", file=sys.stderr)
            continue
        fitted = fit(train, validation, flags.seed, folder / "model")
        yield title, partial(_most_probable, fitted)
    if flags.word_vectors is None or importlib.util.find_spec("sklearn") is None:
        print(
            "left out: static vectors, which need --word_vectors and scikit-learn", file=sys.stderr
        )
    else:
        static = _static_vectors(train, validation, flags.word_vectors)
        yield "static vectors, regression", static
    shape = BertConfig(vocab_size=len(tokenizer), **MINILM)
    shape.num_labels = model.config.num_labels
    untrained: Any = BertForSequenceClassification(shape)
    yield (
        "shape of MiniLM, bfloat16",
        _forward(untrained.eval().bfloat16(), tokenizer, MINILM_TOKENS),
    )
    yield OURS, _forward(model, tokenizer)
    yield "sase_hf, bfloat16", _forward(deepcopy(model).bfloat16(), tokenizer)
    if not all(map(importlib.util.find_spec, NEEDED)):
        print(f"left out: ONNX, which needs {', '.join(NEEDED)}", file=sys.stderr)
        return
    export(flags.checkpoint, folder / "onnx", int8=True)
    for title, int8 in (("sase_hf, ONNX", False), ("sase_hf, ONNX, int8", True)):
        predictor = Predictor(folder / "onnx", int8=int8, num_threads=1)
        yield title, partial(_highest, predictor)


def _seconds(predict: Predict, texts: Sequence[str], repeats: int) -> float:
    """Return the mean seconds of the processor for a call."""
    before = processor_seconds()
    for _ in range(repeats):
        predict(texts)
    return (processor_seconds() - before) / repeats


def _most_probable(fitted: Fitted, texts: Sequence[str]) -> np.ndarray:
    return np.asarray(fitted.predict([[text] for text in texts]).argmax(1))


def _highest(predictor: Predictor, texts: Sequence[str]) -> np.ndarray:
    return np.asarray(predictor.read(texts).argmax(1))


def _static_vectors(train: Rows, validation: Rows, vectors: str) -> Predict:
    """Fit logistic regression on the mean vector of the words of each text; choose its strength."""
    from sklearn.linear_model import LogisticRegression

    tokenizer = build_tokenizer(read_words(vectors), vocab_size=10**6)
    weight, _ = load_word_vectors(vectors, tokenizer)
    weight[tokenizer.unk_token_id] = 0

    def embed(texts: Sequence[str]) -> np.ndarray:
        rows = tokenizer(list(texts), return_attention_mask=False)["input_ids"]
        ids = torch.tensor([one for row in rows for one in row])
        starts = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
        return torch.nn.functional.embedding_bag(ids, weight, starts, mode="mean").numpy()

    known, held_out = (embed([text for (text,) in rows.texts]) for rows in (train, validation))
    fits = [
        LogisticRegression(C=strength, max_iter=1000).fit(known, train.labels)
        for strength in STRENGTHS
    ]
    best = max(fits, key=lambda fitted: fitted.score(held_out, validation.labels))
    return lambda texts: best.predict(embed(texts))


def _forward(model: Any, tokenizer: Any, max_tokens: int | None = None) -> Predict:
    """Return a function that predicts by a model of torch, texts of similar length together."""
    limit = min(max_tokens or tokenizer.model_max_length, tokenizer.model_max_length)

    @torch.inference_mode()
    def predict(texts: Sequence[str]) -> np.ndarray:
        rows = tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]
        found = np.empty(len(texts), np.int64)
        for numbers in batches_by_length([len(row) for row in rows], DEFAULT_BATCH_TOKENS, 1):
            batch = tokenizer.pad({"input_ids": [rows[i] for i in numbers]}, return_tensors="pt")
            logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            found[numbers] = logits.argmax(-1).numpy()
        return found

    return predict


if __name__ == "__main__":
    main()
