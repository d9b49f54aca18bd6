"""The parts of the benchmark; each yields its results as soon as they are measured."""

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from runner import SCRIPTS
from torch import Tensor

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.models.explanation_self_attentive import explain
from sase_hf.retrieval.embed import Embedder
from sase_hf.utils.cli import flag_words
from sase_hf.utils.loading import load_encoder

from . import models
from .texts import WORDS, WORKLOADS, Draw, Texts, batches_of, draw_texts
from .timing import compare, compared, read_all, seconds_of

Result = dict[str, Any]

# Texts in a batch of inference, and batches in a pass: more small ones, which differ most.
INFERENCE_BATCHES = {1: 16, 32: 2, 256: 1}
LONGEST_OF_PLAIN = 4000  # tokens; its time grows with the square
NUMBERS_OF_LABELS = (10, 100, 1_000, 5_000)
OUTPUT = "OUTPUT"  # in a command, a path that is new in each call
TEXT = "the staff was friendly but the soup arrived cold"
LABEL = f"from transformers import pipeline; pipeline('text-classification', {{!r}})({TEXT!r})"
BARE = "from transformers import PreTrainedModel"  # whoever loads any model pays this much
OUR_MODEL = "from sase_hf import SelfAttentiveModel"
# Small, so that the time is that of reading, tokens, batches and results.
SIZES: dict[str, Any] = {"embedding_size": 50, "lstm_hidden_size": 50, "num_hops": 2}


def training(flags: Namespace) -> Iterator[Result]:
    """Compare training steps of whole models, and of encoder and attention alone (model None)."""
    for name in flags.workloads:
        size, num_batches, draw = WORKLOADS[name]
        texts = _draw(flags, draw, size * min(num_batches, flags.max_batches))
        result = compare(flags, models.TRAINING, fields_of(flags), texts, size, "encoder")
        yield {"workload": name, "model": None, **result}
        if name == "documents":  # the classifier is too small a part of a step to be compared
            continue
        for model in flags.models:
            fields = fields_of(flags, model)
            result = compare(flags, models.TRAINING, fields, texts, size, "step")
            yield {"workload": name, "model": model, **result}


def lengths(flags: Namespace, batch_size: int = 2) -> Iterator[Result]:
    """Compare time and memory of encoder and attention on texts from half a length to it."""

    def draw(count: int) -> Tensor:
        return longest * torch.cat([torch.ones(1), (1 + torch.rand(count)[1:]) / 2])

    for longest in flags.lengths:
        texts = _draw(flags, draw, batch_size)
        ways = models.LENGTHS if longest <= LONGEST_OF_PLAIN else models.LENGTHS[1:]
        result = compare(flags, ways, fields_of(flags), texts, batch_size, "encoder")
        yield {"longest": longest, **result}


def inference(flags: Namespace) -> Iterator[Result]:
    """Compare the bare forward pass of each model."""
    for model, name in product(flags.models, flags.workloads):
        for size, count in INFERENCE_BATCHES.items():
            if (name, size) != ("documents", 256):  # it would fill the memory
                texts = _draw(flags, WORKLOADS[name][2], size * count)
                fields = fields_of(flags, model)
                result = compare(flags, models.INFERENCE, fields, texts, size, "forward")
                yield {"workload": name, "model": model, **result}


def embedding(flags: Namespace, batch_size: int = 64) -> Iterator[Result]:
    """Compare ways to embed short texts with the bare forward pass over the same texts."""
    from sentence_transformers import SentenceTransformer  # of the extra `test`

    texts = []
    for drawn_ids, _ in _draw(flags, WORKLOADS["tweets"][2], flags.num_texts):
        words = [WORDS[pick % len(WORDS)] for pick in drawn_ids.tolist()]
        texts.append(" ".join(words))
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, flags.seed, **fields_of(flags))
        encoder, tokenizer = load_encoder(folder)
        ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
        batches = batches_of(ids, batch_size, grouped=True, device=flags.device)
        ours = partial(Embedder(folder, device=flags.device).embed, texts)
        encode = SentenceTransformer(folder, device=flags.device).encode
        theirs = partial(encode, texts, batch_size=batch_size, show_progress_bar=False)
    our_vectors = np.asarray(ours())
    their_vectors = np.asarray(theirs())
    largest = np.abs(our_vectors).max()
    if np.abs(their_vectors - our_vectors).max() > models.TOLERANCE * largest:
        raise RuntimeError("the embeddings by scripts/embed.py and SentenceTransformer differ")
    forward = partial(read_all, encoder.to(flags.device), batches)
    ways: dict[str, Any] = {
        "forward": forward,
        "scripts/embed.py": ours,
        "SentenceTransformer.encode": theirs,
    }
    cases = {name: partial(seconds_of, way, flags.device) for name, way in ways.items()}
    result = compared(cases, flags, "forward", "times_forward")
    yield {"texts": len(texts), "batch_size": batch_size, **result}


def start(flags: Namespace) -> Iterator[Result]:
    """Compare what starts a process with `BARE`: imports, help texts, a first label and page."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, flags.seed, **SIZES)
        page = [f"{SCRIPTS}/visualize.py", folder, "--text", TEXT, "--output", OUTPUT]
        words = {
            "import transformers": ["-c", "import transformers"],
            "import torch": ["-c", "import torch"],
            BARE: ["-c", BARE],
            "import sase_hf": ["-c", "import sase_hf"],
            OUR_MODEL: ["-c", OUR_MODEL],
            "sase_hf --help": ["-m", "sase_hf", "--help"],
            "train.py --help": [f"{SCRIPTS}/train.py", "--help"],
            "embed.py --help": [f"{SCRIPTS}/embed.py", "--help"],
            "first label": ["-c", "import sase_hf; " + LABEL.format(folder)],
            "first page": page,
        }
        yield _compared_with_bare(words, flags)


def commands(flags: Namespace) -> Iterator[Result]:
    """Compare commands on a file of `--rows` rows with `BARE`."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, flags.seed, **SIZES)
        rows = f"{folder}/rows.csv"
        write_rows(rows, flags.rows)
        options = {
            "train_file": rows,
            "output_dir": OUTPUT,
            "validation_fraction": 0,
            **SIZES,
            "num_train_epochs": 1,
            "save_strategy": "no",
            "use_cpu": flags.device == "cpu",
        }
        embed = [f"{SCRIPTS}/embed.py", folder, rows]
        words = {
            BARE: ["-c", BARE],
            "embed.py": [*embed, "--output", OUTPUT],
            "train.py": [f"{SCRIPTS}/train.py", *flag_words(options)],
        }
        yield {"rows": flags.rows, **_compared_with_bare(words, flags)}


def _compared_with_bare(words: dict[str, list[str]], flags: Namespace) -> Result:
    """Return the seconds of commands of Python, beside those of `BARE`."""
    cases = {name: partial(seconds_of_command, command) for name, command in words.items()}
    return compared(cases, flags, BARE, "times_bare")


def write_rows(file: str, count: int) -> None:
    """Write texts as long as tweets, of words some of which are frequent, with two labels."""
    lengths_of_rows = WORKLOADS["tweets"][2](count).int().tolist()
    with open(file, "w", encoding="utf-8") as rows:
        rows.write("text,label\n")
        for row, length in enumerate(lengths_of_rows):
            picks = (len(WORDS) * torch.rand(length) ** 4).int().tolist()
            text = " ".join(WORDS[pick] for pick in picks)
            label = "good" if row % 2 == 0 else "bad"
            rows.write(f"{text},{label}\n")


def why(flags: Namespace) -> Iterator[Result]:
    """Compare the time of an explanation of tweets for models of 10 to 5,000 labels."""
    for size in (1, 32):
        texts = _draw(flags, WORKLOADS["tweets"][2], size)
        [batch] = batches_of(texts, size, grouped=True, device=flags.device)
        batch.pop("labels")
        cases: dict[str, Any] = {}
        for num_labels in NUMBERS_OF_LABELS:
            torch.manual_seed(flags.seed)
            config = SelfAttentiveConfig(**{**fields_of(flags), "num_labels": num_labels})
            model = SelfAttentiveForSequenceClassification(config).eval().to(flags.device)
            way = partial(explain, model, **batch)
            cases[f"{num_labels:,} labels"] = partial(seconds_of, way, flags.device)
        fewest = next(iter(cases))
        result = compared(cases, flags, fewest, "times_fewest")
        yield {"batch_size": size, **result}


def fields_of(flags: Namespace, model: str | None = None) -> dict[str, Any]:
    """Return the fields of the config of one of `MODELS`, by default the first."""
    return {**models.PAPER, **models.MODELS[model or "mlp2000"], **flags.fields}


def _draw(flags: Namespace, draw: Draw, count: int) -> Texts:
    torch.manual_seed(flags.seed)
    return draw_texts(draw(count), fields_of(flags)["vocab_size"], models.PAPER["num_labels"])


def save_model(folder: str, seed: int, **fields: Any) -> None:
    """Save an untrained model that knows `WORDS`, and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer([" ".join(WORDS)])
    config = SelfAttentiveConfig(**{**fields, "vocab_size": len(tokenizer)})
    SelfAttentiveForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def seconds_of_command(words: Sequence[str], repeats: int) -> float:
    """Return the mean seconds that a processor works for a command of Python, imports included.

    Raises RuntimeError if the command fails.
    """
    before = sum(os.times()[2:4])
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as scratch:
            command = [word.replace(OUTPUT, f"{scratch}/new.html") for word in words]
            ended = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{words} failed: {ended.stderr.strip()[-1000:]}")
    return (sum(os.times()[2:4]) - before) / repeats


PARTS = {
    "training": training,
    "lengths": lengths,
    "inference": inference,
    "embedding": embedding,
    "start": start,
    "commands": commands,
    "why": why,
}
