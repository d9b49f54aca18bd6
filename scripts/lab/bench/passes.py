"""Passes of models over the same texts, each in a process with a memory peak of its own."""

import multiprocessing
import resource
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam

from sase_hf.utils.process import is_fast_in_bfloat16, keep_freed_memory

from .models import Settings, build_model, check_same_results
from .texts import Batch, Texts, batches_of
from .timing import Case, in_turn, quartiles, seconds_of, speedup

# A training step, its forward and backward pass of the encoder alone, or a forward pass.
Pass = Literal["step", "encoder", "forward"]


def compare(
    flags: Namespace,
    settings: Sequence[Settings],
    fields: Mapping[str, Any],
    texts: Texts,
    batch_size: int,
    kind: Pass,
) -> dict[str, Any]:
    """Return seconds, peak memory and speed-ups over the first settings of passes."""
    check_same_results(settings, fields, flags)
    peaks: dict[str, float] = {}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.optim", "sase_hf.utils.loading", __name__])

    def seconds(name: str, process: Executor, repeats: int) -> float:
        taken, peaks[name] = process.submit(measure, repeats).result()
        return taken

    with ExitStack() as until_measured:
        cases = {}
        for one in settings:
            batches = batches_of(texts, batch_size, grouped=one.recommended)
            start = partial(_start, one, fields, batches, flags, kind)
            process = ProcessPoolExecutor(1, context, initializer=start)
            cases[one.name] = partial(seconds, one.name, until_measured.enter_context(process))
        times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {
        name: {
            "seconds": quartiles(taken),
            "peak_mib": peaks[name],
            "speedup": speedup(times, settings[0].name, name),
        }
        for name, taken in times.items()
    }
    rounds = min(map(len, times.values()))
    return {"texts": len(texts), "batch_size": batch_size, "rounds": rounds, "settings": rows}


@torch.inference_mode()
def read_all(model: nn.Module, batches: Sequence[Batch]) -> None:
    """Run the forward pass over all batches, without gradients."""
    for batch in batches:
        model(batch["input_ids"], attention_mask=batch["attention_mask"])


def measure(repeats: int) -> tuple[float, float]:
    """Return the mean seconds of a pass of this process, and the peak of its memory in MiB.

    The peak is that of all passes so far, of tensors on a GPU, of the resident size on a CPU. The
    weights do not count: they were there before.
    """
    case, peak_bytes, before = _running
    return case(repeats), (peak_bytes() - before) / 2**20


_running: tuple[Case, Callable[[], int], int]  # of a process, set by `_start`


def _start(
    settings: Settings,
    fields: Mapping[str, Any],
    batches: Sequence[Batch],
    flags: Namespace,
    kind: Pass,
) -> None:
    global _running
    torch.set_num_threads(flags.threads)
    if settings.recommended:
        keep_freed_memory()
    is_half = settings.recommended and is_fast_in_bfloat16()
    model = build_model(settings, fields, flags.device, flags.seed).train(kind != "forward")
    optimizer = Adam(model.parameters(), fused=settings.recommended or None)
    batches = [{name: x.to(flags.device) for name, x in batch.items()} for batch in batches]

    def loss_of_encoder(batch: Batch) -> Tensor:
        encoded = model.get_submodule("encoder")(batch["input_ids"], batch["attention_mask"])
        return encoded.sentence_embedding.float().square().mean() + encoded.penalty.mean()

    def train() -> None:
        for batch in batches:
            with torch.autocast(flags.device, torch.bfloat16, enabled=is_half):
                loss = model(**batch).loss if kind == "step" else loss_of_encoder(batch)
            loss.backward()
            if kind == "step":
                optimizer.step()
            optimizer.zero_grad()

    def peak_bytes() -> int:
        if flags.device == "cuda":
            return torch.cuda.max_memory_allocated()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    # Building the model may have needed more than it holds now.
    if flags.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    run = partial(read_all, model, batches) if kind == "forward" else train
    case = partial(seconds_of, run, flags.device)
    _running = case, peak_bytes, peak_bytes()
