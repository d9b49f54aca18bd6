"""The part of the benchmark that times whole commands: imports, and commands on a made file."""

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, build_tokenizer

from .texts import WORDS, WORKLOADS
from .timing import compared, in_turn

SCRIPTS = Path(__file__).resolve().parents[2]
OUTPUT = "OUTPUT"  # in a command, a path that is new in each call
TEXT = "the staff was friendly but the soup arrived cold"
LABEL = f"from transformers import pipeline; pipeline('text-classification', {{!r}})({TEXT!r})"
BARE = "from transformers import PreTrainedModel"  # whoever loads any model pays this much
# Small, so that the time is that of reading, tokens, batches and results.
SIZES: dict[str, Any] = {"embedding_size": 50, "lstm_hidden_size": 50, "num_hops": 2}


def commands(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Compare imports, first results, and commands on a file of `--rows` rows with `BARE`."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, flags.seed, **SIZES)
        with open(f"{folder}/rows.csv", "w", encoding="utf-8") as file:
            file.write("text,label\n")
            for row, length in enumerate(WORKLOADS["tweets"][2](flags.rows).int().tolist()):
                picks = (len(WORDS) * torch.rand(length) ** 4).int().tolist()  # some are frequent
                text = " ".join(WORDS[pick] for pick in picks)
                file.write(f"{text},{('good', 'bad')[row % 2]}\n")
        words = _words_of_commands(folder, flags.device).items()
        cases = {name: partial(seconds_of_command, own) for name, own in words}
        times = in_turn(cases, flags.rounds, flags.seconds)
    yield {"rows": flags.rows, **compared(times, BARE, "times_bare")}


def save_model(folder: str, seed: int, **fields: Any) -> None:
    """Save an untrained model that knows `WORDS`, and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer([" ".join(WORDS)])
    config = SelfAttentiveConfig(**{**fields, "vocab_size": len(tokenizer)})
    SelfAttentiveForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _words_of_commands(folder: str, device: str) -> dict[str, list[str]]:
    """Return the arguments of `python` by command, for a folder with a model and rows.csv."""
    embed, train, visualize = (f"{SCRIPTS}/{name}.py" for name in ("embed", "train", "visualize"))
    file, output = f"{folder}/rows.csv", ["--output", OUTPUT]
    training = ["--train_file", file, "--output_dir", OUTPUT, "--num_train_epochs=1"]
    training += ["--validation_fraction=0", "--save_strategy=no", f"--use_cpu={device == 'cpu'}"]
    training += [f"--{name}={size}" for name, size in SIZES.items()]
    return {
        **{code: ["-c", code] for code in ("import transformers", "import torch", BARE)},
        "import sase_hf": ["-c", "import sase_hf"],
        "train.py --help": [train, "--help"],
        "embed.py --help": [embed, "--help"],
        "first label": ["-c", "import sase_hf; " + LABEL.format(folder)],
        "first page": [visualize, folder, "--text", TEXT, *output],
        "embed.py": [embed, folder, file, "--device", device, *output],
        "train.py": [train, *training],
    }


def seconds_of_command(words: Sequence[str], repeats: int) -> float:
    """Return the mean seconds that a processor works for a command of Python, imports included.

    Raises RuntimeError if the command fails.
    """
    before = sum(os.times()[2:4])
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as scratch:
            own = [word.replace(OUTPUT, f"{scratch}/new.html") for word in words]
            ended = subprocess.run([sys.executable, *own], capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{words} failed: {ended.stderr.strip()[-1000:]}")
    return (sum(os.times()[2:4]) - before) / repeats
