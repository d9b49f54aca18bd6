"""The part of the benchmark that reads files of many rows, by whole processes."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparing.baselines import processor_seconds

from sase_hf import SelfAttentiveConfig, SelfAttentiveModel, build_tokenizer

from .start import SCRIPTS
from .texts import WORKLOADS
from .timing import quartiles

# Small, so that the rows cost what the model does not: reading, tokens, batches, results.
SIZES = {"embedding_size": 50, "lstm_hidden_size": 50, "num_hops": 2, "classifier_hidden_size": 50}
VOCABULARY = 20_000
POLL_SECONDS = 0.02


def corpora(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Embed files of made rows as long as tweets, and train for one epoch on them."""
    generator = np.random.default_rng(flags.seed)
    torch.manual_seed(flags.seed)
    words = [_word(number) for number in range(VOCABULARY)]
    sizes = {**SIZES, **flags.fields}
    given = [f"--{name}={json.dumps(value)}" for name, value in sizes.items()]
    for rows in flags.rows:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "rows.csv")
            _write_rows(file, rows, words, generator)
            tokenizer = build_tokenizer([" ".join(words)])
            config = SelfAttentiveConfig(vocab_size=len(tokenizer), **sizes)
            SelfAttentiveModel(config).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            output = ["--output", f"{folder}/vectors"]
            training = ["--train_file", str(file), "--output_dir", f"{folder}/run", *given]
            training += ["--num_train_epochs", "1", "--validation_fraction", "0"]
            commands = {
                "embed.py": ["embed.py", folder, str(file), *output],
                "train.py": ["train.py", *training, "--save_strategy", "no"],
            }
            threads = flags.threads
            settings = {name: cost_of_command(c, rows, threads) for name, c in commands.items()}
        yield {"rows": rows, "settings": settings}


def _word(number: int) -> str:
    letters = ""
    while number >= 0:
        number, letter = divmod(number, 26)
        letters, number = chr(ord("a") + letter) + letters, number - 1
    return letters


def _write_rows(
    file: Path, rows: int, words: Sequence[str], generator: np.random.Generator
) -> None:
    """Write rows of random words, the first ones the most frequent, each with one of two labels."""
    shares = 1 / np.arange(2, len(words) + 2)
    lengths = WORKLOADS["tweets"].draw(rows).tolist()
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["text", "label"])
        for row, length in enumerate(lengths):
            if row % 10_000 == 0:
                picks = iter(generator.choice(len(words), 400_000, p=shares / shares.sum()))
            text = " ".join(words[next(picks)] for _ in range(int(length)))
            writer.writerow([text, ("good", "bad")[row % 2]])


def cost_of_command(command: Sequence[str], rows: int, threads: int) -> dict[str, Any]:
    """Run a script; return its processor seconds, rows a second, and most memory in MiB.

    Memory is what the process wrote itself. Pages of mapped files, which the system takes back
    where others need them, do not count.

    Raises:
        RuntimeError: If the script fails, or the system does not tell the memory.
    """
    if not Path("/proc/self/status").exists():
        raise RuntimeError("the part corpora reads memory from /proc, which only Linux has")
    script, *words = command
    before, peak = processor_seconds(), 0
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPTS / script), *words],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdout=log,
            stderr=log,
        )
        while process.poll() is None:
            peak = max(peak, _own_kib(process.pid))
            time.sleep(POLL_SECONDS)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{script} failed: {log.read().strip()[-1000:]}")
    seconds = processor_seconds() - before
    rates = {"seconds": quartiles([seconds]), "rows_per_second": quartiles([rows / seconds])}
    return {**rates, "peak_mib": peak / 1024}


def _own_kib(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line), 0)
