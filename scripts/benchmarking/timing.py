"""Times of cases that run in turn, and what follows from them.

A time measured on a shared machine means little alone, but other work slows everything of a round.
So everything that is compared runs in turn, A B C A B C, and ratios are taken within each round.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from sase_hf import SelfAttentiveConfig

from .models import Settings
from .texts import Texts

Case = Callable[[int], float]  # number of calls -> mean seconds of a call
Times = dict[str, list[float]]
Quartiles = dict[str, float]

MIN_SECONDS = 0.02  # a shorter call is repeated, because the clock is not exact enough
MAX_REPEATS = 1000
MIN_ROUNDS = 3  # with fewer ratios, quartiles mean nothing
# The backward pass of a matrix product is two products of the same size.
TRAINING_FACTOR = 3


def in_turn(cases: Mapping[str, Case], rounds: int, seconds: float) -> Times:
    """Run cases in turn, round after round, and return seconds of a call for each round.

    The first round is a warm-up and does not count, unless it alone takes longer than `seconds`.
    After this time no round begins, as soon as there are `MIN_ROUNDS`. Each round begins with
    another case, so that no case always follows the same neighbour.
    """
    started = time.perf_counter()
    first = {name: case(1) for name, case in cases.items()}
    is_slow = time.perf_counter() - started > seconds
    times = {name: [taken] if is_slow else [] for name, taken in first.items()}
    repeats = {
        name: min(MAX_REPEATS, max(1, math.ceil(MIN_SECONDS / taken)))
        for name, taken in first.items()
    }
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
    """Return how many times as fast as the baseline a case is, from the ratio of each round."""
    pairs = zip(times[baseline], times[name], strict=True)
    return quartiles([slow / fast for slow, fast in pairs])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of a line through the logarithms: 1 is linear growth, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def products(size: int, device: str) -> dict[str, Case]:
    """Return products of square matrices of `size` rows: the most that the machine can do."""
    cases: dict[str, Case] = {}
    for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items():
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        product = partial(torch.mm, left, right, out=torch.empty_like(left))
        cases[f"product, {name}"] = partial(seconds_of, product, device)
    return cases


def lstm_flops(config: SelfAttentiveConfig) -> int:
    """Return the operations of a forward pass of the BiLSTM for a token."""
    u = config.lstm_hidden_size
    return 2 * 2 * 4 * u * (config.embedding_size + u)  # two directions, four gates


def model_flops(
    config: SelfAttentiveConfig, num_tokens: int, num_texts: int, *, classifier: bool
) -> int:
    """Return the operations of a forward pass, 2 m k n for a product of (m, k) and (k, n).

    The model has one BiLSTM layer; tokens are counted without padding.
    """
    width, labels = config.hidden_size, len(config.id2label or {})
    a, r = config.attention_size, config.num_hops
    per_token = lstm_flops(config)
    per_token += 2 * a * width + 2 * r * a + 2 * r * width + 2 * r * r  # W_s1, W_s2, A H, A A^T
    if not classifier:
        return per_token * num_tokens
    if config.classifier == "pruned_mlp":
        p, q = config.pruned_row_size, config.pruned_column_size
        per_text = 2 * (r * width * (p + q) + (r * p + width * q) * labels)
    else:
        per_text = 2 * config.classifier_hidden_size * (r * width + labels)
    return per_token * num_tokens + per_text * num_texts


def describe(
    settings: Sequence[Settings], times: Times, texts: Texts, flops: int, product_size: int
) -> dict[str, Any]:
    """Return speed-ups over the first settings, rates, and shares of the ceiling.

    `texts` and `flops` are those of one pass; `times` holds the matrix products too.
    """
    tokens = sum(len(text) for text, _ in texts)
    rows: dict[str, dict[str, Any]] = {}
    for one in settings:
        seconds = times[one.name]
        rows[one.name] = {
            "seconds": quartiles(seconds),
            "tokens_per_second": quartiles([tokens / value for value in seconds]),
            "speedup": speedup(times, settings[0].name, one.name),
        }
        product = times.get(f"product, {one.dtype}")  # none for int8
        if product:
            ratios = zip(product, seconds, strict=True)
            shares = [flops * p / (2 * product_size**3 * s) for p, s in ratios]
            rows[one.name]["share_of_ceiling"] = quartiles(shares)
    rounds = len(times[settings[0].name])
    return {"texts": len(texts), "rounds": rounds, "flops": flops, "settings": rows}
