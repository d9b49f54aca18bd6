"""What is timed: passes of a model over batches, in training and in inference.

Training passes run in a process of their own for each way to run the model. So each has its own
memory, whose peak can be measured, and can keep freed memory or give it back to the system.
"""

import multiprocessing
import resource
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from sase_hf.utils.memory import keep_freed_memory

from .models import Settings, build_model
from .texts import Batch
from .timing import seconds_of


def training_pass(
    model: nn.Module, settings: Settings, batches: Sequence[Batch], *, whole: bool
) -> Callable[[], None]:
    """Return whole training steps with Adam, or forward and backward pass of the encoder alone."""
    optimizer = Adam(model.parameters(), fused=settings.fused or None)
    encoder = model.get_submodule("encoder")

    def loss_of(batch: Batch) -> Tensor:
        with settings.precision(batch["input_ids"].device.type):
            if whole:
                return model(**batch).loss
            encoded = encoder(batch["input_ids"], batch["attention_mask"])
        return encoded.sentence_embedding.float().square().mean() + encoded.penalty.mean()

    def run() -> None:
        for batch in batches:
            loss_of(batch).backward()
            if whole:
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


def training_process(*arguments: Any) -> ProcessPoolExecutor:
    """Return a process with a model, for `seconds_of_training` and `peak_mib`.

    The arguments are those of `_start`; of the flags it reads `device`, `seed` and `threads`. If
    the process dies, for example because it needs too much memory, its results raise RuntimeError.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.optim", "sase_hf.utils.loading", __name__])
    return ProcessPoolExecutor(1, context, initializer=_start, initargs=arguments)


# In a training process: its pass, the device, and the peak in bytes before the first pass.
_running: tuple[Callable[[], None], str, int]


def _start(
    settings: Settings,
    fields: Mapping[str, Any],
    batches: Sequence[Batch],
    flags: Namespace,
    whole: bool,
) -> None:
    global _running
    torch.set_num_threads(flags.threads)
    if settings.keeps_memory:
        keep_freed_memory()
    batches = [{name: x.to(flags.device) for name, x in batch.items()} for batch in batches]
    model = build_model(settings, fields, flags.device, flags.seed)
    run = training_pass(model, settings, batches, whole=whole)
    # Building the model may have needed more than it holds now.
    if flags.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    _running = run, flags.device, _peak_bytes(flags.device)


def seconds_of_training(repeats: int) -> float:
    """In a training process, run the pass and return its mean time."""
    run, device, _ = _running
    return seconds_of(run, device, repeats)


def peak_mib() -> float:
    """In a training process, return by how many MiB memory grew at most during the passes so far.

    On a CPU that is the resident size of the process, on a GPU the memory of tensors. The weights
    were there before and do not count; gradients, the moments of the optimizer and everything kept
    for the backward pass do.
    """
    _, device, before = _running
    return (_peak_bytes(device) - before) / 2**20


def _peak_bytes(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
