"""The part of the benchmark that reads files of many rows, by whole processes."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparing.baselines import processor_seconds
from torch import Tensor

from sase_hf import SelfAttentiveConfig, SelfAttentiveModel, build_tokenizer

from .start import SCRIPTS
from .texts import WORKLOADS, made_words
from .timing import quartiles

# Small, so that the rows cost what the model does not: reading, tokens, batches, results.
SIZES = {"embedding_size": 50, "lstm_hidden_size": 50, "num_hops": 2, "classifier_hidden_size": 50}
WORDS = made_words(20_000)
PART = 10_000  # rows whose words are drawn at a time
POLL_SECONDS = 0.02


def corpora(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Embed files of made rows as long as tweets, and train for one epoch on them, on the CPU."""
    generator = np.random.default_rng(flags.seed)
    torch.manual_seed(flags.seed)
    sizes = {**SIZES, **flags.fields}
    tokenizer = build_tokenizer([" ".join(WORDS)])
    config = SelfAttentiveConfig(vocab_size=len(tokenizer), **sizes)
    for rows in flags.rows:
        with tempfile.TemporaryDirectory() as folder:
            SelfAttentiveModel(config).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            file = Path(folder, "rows.csv")
            write_rows(file, {"text": WORKLOADS["tweets"].draw(rows)}, ("good", "bad"), generator)
            output = ["--output", f"{folder}/vectors", "--device", "cpu"]
            training = ["--train_file", str(file), "--output_dir", f"{folder}/run"]
            training += ["--num_train_epochs", "1", "--validation_fraction", "0"]
            training += ["--use_cpu", "true", "--save_strategy", "no", *flags_of(sizes)]
            commands = {
                "embed.py": [str(SCRIPTS / "embed.py"), folder, str(file), *output],
                "train.py": [str(SCRIPTS / "train.py"), *training],
            }
            settings = {
                name: cost_of_command(words, rows, flags.threads)
                for name, words in commands.items()
            }
        yield {"rows": rows, "settings": settings}


def flags_of(fields: Mapping[str, Any]) -> list[str]:
    """Return flags of scripts/train.py for fields of a config."""
    texts = {name: x if isinstance(x, str) else json.dumps(x) for name, x in fields.items()}
    return [f"--{name}={text}" for name, text in texts.items()]


def write_rows(
    file: Path,
    lengths: Mapping[str, Tensor],
    labels: Sequence[str],
    generator: np.random.Generator,
) -> None:
    """Write rows of random words, the first of `WORDS` the most frequent, with labels in turn.

    Args:
        file: A CSV file.
        lengths: For each column of texts the number of words of every row.
        labels: What the column `label` holds.
        generator: Draws the words.
    """
    shares = 1 / np.arange(2, len(WORDS) + 2)
    words = np.array(WORDS)
    most = PART * sum(int(column.max()) for column in lengths.values())  # that a part can need
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow([*lengths, "label"])
        columns = (column.int().tolist() for column in lengths.values())
        for row, counts in enumerate(zip(*columns, strict=True)):
            if row % PART == 0:
                drawn, used = words[generator.choice(len(words), most, p=shares / shares.sum())], 0
            texts = []
            for count in counts:
                texts.append(" ".join(drawn[used : used + count]))
                used += count
            writer.writerow([*texts, labels[row % len(labels)]])


def cost_of_command(words: Sequence[str], rows: int, threads: int) -> dict[str, Any]:
    """Run Python; return its processor seconds, rows a second, and its most memory in MiB.

    Memory is what the process wrote itself. Pages of mapped files, which the system takes back
    where others need them, do not count.

    Raises:
        RuntimeError: If the command fails, or the system does not tell the memory.
    """
    if not Path("/proc/self/status").exists():
        raise RuntimeError("the memory of a command is read from /proc, which only Linux has")
    before, peak = processor_seconds(), 0
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdout=log,
            stderr=log,
        )
        try:
            while process.poll() is None:
                peak = max(peak, _own_kib(process.pid))
                time.sleep(POLL_SECONDS)
        finally:
            process.terminate()  # where this one is interrupted
            process.wait()
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{words} failed: {log.read().strip()[-1000:]}")
    seconds = processor_seconds() - before
    rates = {"seconds": quartiles([seconds]), "rows_per_second": quartiles([rows / seconds])}
    return {**rates, "peak_mib": peak / 1024}


def _own_kib(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line), 0)
