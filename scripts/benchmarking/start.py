"""The part of the benchmark that starts processes: imports, `--help`, the first label and page."""

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from comparing.baselines import processor_seconds

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, build_tokenizer

from .timing import in_turn, quartiles, speedup

SCRIPTS = Path(__file__).resolve().parents[1]
TEXT = "the staff was friendly but the soup arrived cold"
LABEL = f"from transformers import pipeline; pipeline('text-classification', {{!r}})({TEXT!r})"
# Whoever loads a model pays this much, with or without this package.
BARE = "from transformers import PreTrainedModel"


def start(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Compare the processor seconds of whole processes with those of `BARE`, transformers' own."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = build_tokenizer([TEXT])
        fields: dict[str, Any] = {"vocab_size": len(tokenizer), "num_labels": 2}
        config = SelfAttentiveConfig(**fields)
        SelfAttentiveForSequenceClassification(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        page = ["--text", TEXT, "--output", f"{folder}/page.html"]
        commands: dict[str, Sequence[str]] = {
            "import transformers": ["-c", "import transformers"],
            "import torch": ["-c", "import torch"],
            BARE: ["-c", BARE],
            "import sase_hf": ["-c", "import sase_hf"],
            "train.py --help": [str(SCRIPTS / "train.py"), "--help"],
            "embed.py --help": [str(SCRIPTS / "embed.py"), "--help"],
            "first label": ["-c", "import sase_hf; " + LABEL.format(folder)],
            "first page": [str(SCRIPTS / "visualize.py"), folder, *page],
        }
        cases = {name: partial(seconds_of_command, words) for name, words in commands.items()}
        times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {
        name: {"seconds": quartiles(taken), "times_bare": speedup(times, name, BARE)}
        for name, taken in times.items()
    }
    yield {"rounds": len(times[BARE]), "settings": rows}


def seconds_of_command(words: Sequence[str], repeats: int) -> float:
    """Return the mean seconds that a processor works for a command of Python, and to start it.

    Raises:
        RuntimeError: If the command fails.
    """
    before = processor_seconds()
    for _ in range(repeats):
        ended = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{words} failed: {ended.stderr.strip()}")
    return (processor_seconds() - before) / repeats
