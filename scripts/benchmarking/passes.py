"""What is timed: passes of a model over batches, in training and in inference.

Training passes run in a process of their own for each way to run the model. So each has its own
memory, whose peak can be measured, and can keep freed memory or give it back to the system.
"""

import multiprocessing
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Adam

from sase_hf.utils.memory import keep_freed_memory

from .models import Settings, build_model
from .texts import Batch
from .timing import seconds_of

LEARNING_RATE = 1e-3


def encoder_pass(
    model: nn.Module, settings: Settings, batches: Sequence[Batch]
) -> Callable[[], None]:
    """Return forward and backward pass of encoder and attention over all batches."""
    encoder = model.get_submodule("encoder")

    def run() -> None:
        for batch in batches:
            with settings.precision(batch["input_ids"].device.type):
                encoded = encoder(batch["input_ids"], batch["attention_mask"])
            matrix, penalty = encoded.sentence_embedding, encoded.penalty
            (matrix.float().square().mean() + penalty.mean()).backward()
            model.zero_grad()

    model.train()
    return run


def training_pass(
    model: nn.Module, settings: Settings, batches: Sequence[Batch]
) -> Callable[[], None]:
    """Return whole training steps with Adam, one for each batch."""
    optimizer = Adam(model.parameters(), lr=LEARNING_RATE, fused=settings.fused or None)

    def run() -> None:
        for batch in batches:
            with settings.precision(batch["input_ids"].device.type):
                loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    model.train()
    return run


def inference_pass(model: nn.Module, batches: Sequence[Batch]) -> Callable[[], None]:
    """Return the forward pass over all batches, without gradients."""

    @torch.inference_mode()
    def run() -> None:
        for batch in batches:
            model(batch["input_ids"], attention_mask=batch["attention_mask"])

    model.eval()
    return run


class TrainingProcess:
    """A process that holds a model and runs its training pass whenever it is told to.

    Leaving its context ends the process. If the process dies, for example for want of memory, its
    methods raise RuntimeError.

    Args:
        settings: How the model is run.
        fields: Fields of its config.
        batches: Its input, on the CPU.
        whole: With classifier and optimizer; otherwise encoder and attention only.
        device: Where it runs.
        seed: The seed of the weights.
        threads: CPU threads.
    """

    def __init__(
        self,
        settings: Settings,
        fields: Mapping[str, Any],
        batches: Sequence[Batch],
        *,
        whole: bool,
        device: str = "cpu",
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.optim", "sase_hf.utils.loading", __name__])
        training = (settings, fields, batches, whole, device, seed, threads)
        self._pool = ProcessPoolExecutor(1, context, initializer=_start, initargs=training)

    def __enter__(self) -> "TrainingProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def seconds(self, repeats: int) -> float:
        """Run the pass and return its mean time."""
        return self._pool.submit(_seconds, repeats).result()

    def peak_mib(self) -> float:
        """Return by how many MiB memory grew at most during the passes so far.

        On a CPU that is the resident size of the process, on a GPU the memory of tensors. The
        weights were there before and do not count; gradients, the moments of the optimizer and
        everything kept for the backward pass do.
        """
        return self._pool.submit(_peak_mib).result()


# In a training process: its pass, the device, and the peak in bytes before the first pass.
_running: tuple[Callable[[], None], str, int]


def _start(
    settings: Settings,
    fields: Mapping[str, Any],
    batches: Sequence[Batch],
    whole: bool,
    device: str,
    seed: int,
    threads: int,
) -> None:
    global _running
    torch.set_num_threads(threads)
    if settings.keeps_memory:
        keep_freed_memory()
    batches = [{name: x.to(device) for name, x in batch.items()} for batch in batches]
    model = build_model(settings, fields, device, seed)
    run = (training_pass if whole else encoder_pass)(model, settings, batches)
    # Building the model may have needed more than it holds now.
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    _running = run, device, _peak_bytes(device)


def _seconds(repeats: int) -> float:
    run, device, _ = _running
    return seconds_of(run, device, repeats)


def _peak_mib() -> float:
    _, device, before = _running
    return (_peak_bytes(device) - before) / 2**20


def _peak_bytes(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
