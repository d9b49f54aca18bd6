"""Peak memory of a step, measured in a process of its own.

On a CPU it is how much the largest resident size of the process grows while the step runs, on a GPU
how much the memory held by tensors does. Weights that were there before are not counted; gradients,
the optimiser's moments and everything kept for the backward pass are.
"""

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sase_hf.utils.processes import in_fresh_process

from .passes import encoder_pass, training_pass
from .settings import Settings, build_model
from .workloads import Batch


@dataclass(frozen=True)
class MemoryCase:
    """A step whose memory is asked for; sent to the other process.

    Attributes:
        settings: How it is run.
        fields: Fields of the config.
        batches: What it reads, on the CPU.
        whole: With classifier and optimiser, not encoder and attention alone.
        device: Where it runs.
        seed: Of the weights.
        threads: Of the CPU.
    """

    settings: Settings
    fields: Mapping[str, Any]
    batches: Sequence[Batch]
    whole: bool
    device: str
    seed: int
    threads: int


def peak_mib(case: MemoryCase) -> float:
    """Return the peak memory of a step in MiB, from a fresh process."""
    peak: int = in_fresh_process(measure, case)
    return peak / 2**20


def measure(case: MemoryCase) -> int:
    """Run the step in this process and return how many bytes its peak added."""
    torch.set_num_threads(case.threads)
    device = torch.device(case.device)
    batches = [{name: x.to(device) for name, x in batch.items()} for batch in case.batches]
    model = build_model(case.settings, case.fields, device, case.seed)
    run = (training_pass if case.whole else encoder_pass)(model, case.settings, batches)
    _forget_peak(device)
    before = _peak(device)
    run()
    return _peak(device) - before


def _forget_peak(device: torch.device) -> None:
    """Let the peak be what is held now: making the model may have taken more."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
