"""The part of the benchmark that trains for an epoch on as many pairs as SNLI, as long as its."""

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .corpora import cost_of_command, flags_of, write_rows
from .start import SCRIPTS
from .timing import quartiles

# Mean and standard deviation of the words of both sentences (Bowman et al., 2015).
PREMISE, HYPOTHESIS = (14.1, 6.0), (8.3, 3.2)
LABELS = ("entailment", "neutral", "contradiction")
BATCH_SIZE = 512


def epoch(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Train a new model by scripts/train.py, on every GPU through torchrun.

    *Seconds* are the clock's, of the epoch alone; reading and tokenizing come before.
    """
    torch.manual_seed(flags.seed)
    lengths = {
        name: (mean + spread * torch.randn(flags.pairs)).round().clamp(1, 80)
        for name, (mean, spread) in {"premise": PREMISE, "hypothesis": HYPOTHESIS}.items()
    }
    on_gpu = flags.device == "cuda"
    processes = torch.cuda.device_count() if on_gpu else 1
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder, "pairs.csv"), Path(folder, "run")
        write_rows(file, lengths, LABELS, np.random.default_rng(flags.seed))
        size = max(min(BATCH_SIZE, flags.pairs // 4), 1)
        words = ["--train_file", str(file), "--output_dir", str(run), "--save_strategy", "no"]
        words += ["--text_column_names", "premise,hypothesis", "--num_train_epochs", "1"]
        words += ["--validation_fraction", "0", "--bf16", "true"]
        words += ["--per_device_train_batch_size", str(size)]
        words += flags_of(flags.fields)
        command = [*(launcher if on_gpu else ()), str(SCRIPTS / "train.py"), *words]
        command += [] if on_gpu else ["--use_cpu", "true"]
        cost = cost_of_command(command, flags.pairs, flags.threads)
        state = json.loads((run / "trainer_state.json").read_text("utf-8"))
    seconds = next(e["train_runtime"] for e in state["log_history"] if "train_runtime" in e)
    row = {
        "seconds": quartiles([seconds]),
        "rows_per_second": quartiles([flags.pairs / seconds]),
        "processor_seconds": cost["seconds"]["median"],  # of the whole command
    }
    facts = {"pairs": flags.pairs, "processes": processes, "batch_size": size}
    yield {**facts, "settings": {"train.py": row}}
