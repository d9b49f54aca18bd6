"""Times of cases that run in turn, A B C A B C, and their ratios within each round.

The time of one case means little on a shared machine, but other work slows all cases of a round.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

Case = Callable[[int], float]  # number of calls -> mean seconds of a call
Times = dict[str, list[float]]
Quartiles = dict[str, float]

MIN_SECONDS = 0.02  # a shorter call is repeated, because the clock is not exact enough
MIN_ROUNDS = 3  # with fewer ratios, quartiles mean nothing


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


def compared(times: Times, baseline: str, ratio: str) -> dict[str, Any]:
    """Return seconds of each case and its time as a multiple of the baseline's, named `ratio`."""
    rows = {
        name: {"seconds": quartiles(taken), ratio: speedup(times, name, baseline)}
        for name, taken in times.items()
    }
    return {"rounds": len(times[baseline]), "settings": rows}
