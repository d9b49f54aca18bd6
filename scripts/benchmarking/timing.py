"""Times of things that are run in turn, and what follows from them.

On a shared machine a time means little alone; what was run in the same round met the same machine.
So everything that is compared runs in turn, A B C A B C, and ratios are taken within each round.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

Times = dict[str, list[float]]
Quartiles = dict[str, float]

# A call shorter than this is repeated within a round, so that the clock does not decide.
SHORTEST_SECONDS = 0.02
MAX_REPEATS = 1000
# Fewer ratios have no quartiles to speak of.
MIN_ROUNDS = 3


@dataclass(frozen=True)
class Budget:
    """How long to measure.

    Attributes:
        rounds: Rounds of a comparison.
        seconds: After this time a comparison ends as soon as it has `MIN_ROUNDS`.
    """

    rounds: int
    seconds: float


def in_turn(
    cases: Mapping[str, Callable[[], object]], budget: Budget, device: torch.device
) -> Times:
    """Run cases in turn, round after round.

    The first round is warm-up and not counted, unless it alone uses up the budget: then the work
    is so long that warming up hardly shows. Each round begins with another case, so that none has
    always the same neighbour before it.

    Args:
        cases: What to run, by name.
        budget: How long.
        device: Waited for before each look at the clock.

    Returns:
        Seconds of a call for each case, one entry for each round.
    """
    started = time.perf_counter()
    first = {name: seconds_of(case, 1, device) for name, case in cases.items()}
    is_slow = time.perf_counter() - started > budget.seconds
    times = {name: [seconds] if is_slow else [] for name, seconds in first.items()}
    repeats = {
        name: min(MAX_REPEATS, max(1, math.ceil(SHORTEST_SECONDS / seconds)))
        for name, seconds in first.items()
    }
    names = list(cases)
    for done in range(len(times[names[0]]), budget.rounds):
        if done >= MIN_ROUNDS and time.perf_counter() - started > budget.seconds:
            break
        start = done % len(names)
        for name in names[start:] + names[:start]:
            times[name].append(seconds_of(cases[name], repeats[name], device))
    return times


def seconds_of(case: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Return the mean time of some calls, with the work they left to the device."""
    _wait_for(device)
    started = time.perf_counter()
    for _ in range(repeats):
        case()
    _wait_for(device)
    return (time.perf_counter() - started) / repeats


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the median of some values and the quartiles around it."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {"q1": low, "median": median, "q3": high}


def speedup(times: Times, baseline: str, name: str) -> Quartiles:
    """Return how many times faster a case is than another, from the ratio of each round.

    Args:
        times: What `in_turn` returned.
        baseline: The slower case, one hopes.
        name: The faster one.
    """
    pairs = zip(times[baseline], times[name], strict=True)
    return quartiles([slow / fast for slow, fast in pairs])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of a line through the logarithms: 1 is linear growth, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
