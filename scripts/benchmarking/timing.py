"""Times of things that run in turn, and what follows from them.

A time measured on a shared machine means little alone, but other work slows everything of a round.
So everything that is compared runs in turn, A B C A B C, and ratios are taken within each round.

Symbols: d width of the word vectors, u LSTM units per direction, a attention size, r hops, b, p, q
hidden units, c labels. A product of matrices (m, k) and (k, n) takes 2 m k n operations.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

from sase_hf import SelfAttentiveConfig

Case = Callable[[int], float]  # number of calls -> mean seconds of a call
Times = dict[str, list[float]]
Quartiles = dict[str, float]

# A shorter call is repeated within a round, because the clock is not exact enough.
MIN_SECONDS = 0.02
MAX_REPEATS = 1000
# With fewer ratios, quartiles mean nothing.
MIN_ROUNDS = 3

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# The backward pass of a matrix product is two products of the same size.
TRAINING_FACTOR = 3


def in_turn(cases: Mapping[str, Case], rounds: int, seconds: float) -> Times:
    """Run cases in turn, round after round.

    The first round is a warm-up and does not count, unless it alone takes longer than `seconds`.
    Each round begins with another case, so that no case always follows the same neighbour.

    Args:
        cases: What to run, by name.
        rounds: How many rounds count.
        seconds: After this time no round begins, as soon as there are `MIN_ROUNDS`.

    Returns:
        Seconds of a call for each case, one entry for each round.
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
    """Return a square matrix product in each data type: the most that the machine can do.

    Args:
        size: Rows and columns.
        device: Where it runs.
    """

    def product(dtype: torch.dtype) -> Callable[[], object]:
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        return partial(torch.mm, left, right, out=torch.empty_like(left))

    return {
        f"product, {name}": partial(seconds_of, product(dtype), device)
        for name, dtype in DTYPES.items()
    }


def model_flops(
    config: SelfAttentiveConfig, num_tokens: int, num_texts: int, *, classifier: bool
) -> int:
    """Return the operations of a forward pass.

    Per token: a layer of the LSTM has four gates in two directions, 2 * 2 * 4u(width + u); the
    attention is W_s1 (2 * a * 2u), W_s2 (2 * r * a), A H (2 * r * 2u) and A A^T (2 * r * r). Per
    text: the MLP has 2 * (r*2u*b + b*c), the pruned one 2 * (r*2u*p + 2u*r*q + (r*p + 2u*q)*c).

    Args:
        config: The config of the model.
        num_tokens: Tokens without padding.
        num_texts: Number of texts.
        classifier: With the classifier; otherwise encoder and attention only.
    """
    u, width, labels = config.lstm_hidden_size, config.hidden_size, len(config.id2label or {})
    a, r = config.attention_size, config.num_hops
    inputs = [config.embedding_size] + [width] * (config.num_lstm_layers - 1)
    per_token = sum(2 * 2 * 4 * u * (size + u) for size in inputs)
    per_token += 2 * a * width + 2 * r * a + 2 * r * width + 2 * r * r
    if not classifier:
        return per_token * num_tokens
    if config.classifier == "pruned_mlp":
        p, q = config.pruned_row_size, config.pruned_column_size
        per_text = 2 * (r * width * (p + q) + (r * p + width * q) * labels)
    else:
        per_text = 2 * config.classifier_hidden_size * (r * width + labels)
    return per_token * num_tokens + per_text * num_texts
