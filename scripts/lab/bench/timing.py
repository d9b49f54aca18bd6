"""Times of cases that run in turn, A B C A B C, and their ratios within each round.

The time of one case means little on a shared machine, but other work slows all cases of a round.
Passes of models over the same texts run in a process each, with a memory peak of its own.
"""

import math
import multiprocessing
import resource
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from sase_hf.utils.process import is_fast_in_bfloat16, keep_freed_memory

from .models import Fields, Settings, build_model, check_same_results
from .texts import Batch, Texts, batches_of

Case = Callable[[int], float]  # number of calls -> mean seconds of a call
Times = dict[str, list[float]]
Quartiles = dict[str, float]

MIN_SECONDS = 0.02  # a shorter call is repeated, because the clock is not exact enough
MIN_ROUNDS = 3  # with fewer ratios, quartiles mean nothing

# A training step, its forward and backward pass of the encoder alone, or a forward pass.
Pass = Literal["step", "encoder", "forward"]


def in_turn(cases: Mapping[str, Case], rounds: int, seconds: float) -> Times:
    """Run cases in turn, round after round, and return the seconds of a call for each round.

    The first round is a warm-up and does not count, unless it alone takes longer than `seconds`.
    After this time and `MIN_ROUNDS`, no round begins. Each round begins with another case, so that
    no case always follows the same neighbour.
    """
    started = time.perf_counter()
    first = {name: case(1) for name, case in cases.items()}
    is_slow = time.perf_counter() - started > seconds
    times = {name: [taken] if is_slow else [] for name, taken in first.items()}
    repeats = {name: math.ceil(MIN_SECONDS / taken) for name, taken in first.items()}
    names = list(cases)
    for done in range(int(is_slow), rounds):
        if done >= MIN_ROUNDS and time.perf_counter() - started > seconds:
            break
        start = done % len(names)
        for name in names[start:] + names[:start]:
            times[name].append(cases[name](repeats[name]))
    return times


def seconds_of(call: Callable[[], object], device: str, repeats: int) -> float:
    """Return the mean time of calls, including the work they leave to the device."""
    # A Timer of torch.utils.benchmark would call twice more, which takes minutes on documents.
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    wait()
    return (time.perf_counter() - started) / repeats


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the median and both quartiles."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {"q1": low, "median": median, "q3": high}


def speedup(times: Times, baseline: str, name: str) -> Quartiles:
    """Return the quartiles of a case's speed over the baseline's, from the ratio of each round."""
    return quartiles(np.divide(times[baseline], times[name]).tolist())


def compared(
    cases: Mapping[str, Case], flags: Namespace, baseline: str, ratio: str
) -> dict[str, Any]:
    """Return seconds of each case and a ratio to the baseline's: its "speedup", or the inverse."""
    times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {}
    for name, taken in times.items():
        pair = (baseline, name) if ratio == "speedup" else (name, baseline)
        rows[name] = {"seconds": quartiles(taken), ratio: speedup(times, *pair)}
    return {"rounds": len(times[baseline]), "settings": rows}


def compare(
    flags: Namespace,
    settings: Sequence[Settings],
    fields: Fields,
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
        result = compared(cases, flags, settings[0].name, "speedup")
    for name, row in result["settings"].items():
        row["peak_mib"] = peaks[name]
    return {"texts": len(texts), "batch_size": batch_size, **result}


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
    fields: Fields,
    batches: Sequence[Batch],
    flags: Namespace,
    kind: Pass,
) -> None:
    global _running
    torch.set_num_threads(flags.threads)
    if settings.recommended:
        keep_freed_memory()
    is_half = settings.recommended and is_fast_in_bfloat16()
    model = build_model(settings, fields, flags).train(kind != "forward")
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
    _running = partial(seconds_of, run, flags.device), peak_bytes, peak_bytes()
