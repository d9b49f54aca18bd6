"""What the machine could do at best, and the arithmetic that the model needs.

Symbols: d width of the word vectors, u LSTM units per direction, a attention size, r hops, b, p, q
hidden units, c labels. A product of matrices (m, k) and (k, n) takes 2 m k n operations.
"""

from collections.abc import Callable

import torch

from sase_hf import SelfAttentiveConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# The backward pass of a matrix product is two products of the same size.
TRAINING_FACTOR = 3
# Adam reads a weight, its gradient and two moments, and writes all but the gradient.
ADAM_TRANSFERS = 7
# Read a and b, write a.
STREAM_TRANSFERS = 3


def encoder_flops(config: SelfAttentiveConfig) -> int:
    """Return the operations per token of encoder and attention, forward.

    A layer of the LSTM has four gates in two directions, 2 * 2 * 4u(width + u); the attention is
    W_s1 (2 * a * 2u), W_s2 (2 * r * a), A H (2 * r * 2u) and A A^T (2 * r * r).
    """
    u, width = config.lstm_hidden_size, config.hidden_size
    a, r = config.attention_size, config.num_hops
    inputs = [config.embedding_size] + [width] * (config.num_lstm_layers - 1)
    lstm = sum(2 * 2 * 4 * u * (size + u) for size in inputs)
    return lstm + 2 * a * width + 2 * r * a + 2 * r * width + 2 * r * r


def classifier_flops(config: SelfAttentiveConfig) -> int:
    """Return the operations per text of the classifier, forward.

    The MLP has 2 * (r*2u*b + b*c), the pruned one 2 * (r*2u*p + 2u*r*q + (r*p + 2u*q)*c).
    """
    r, width, labels = config.num_hops, config.hidden_size, len(config.id2label or {})
    if config.classifier == "pruned_mlp":
        p, q = config.pruned_row_size, config.pruned_column_size
        return 2 * (r * width * (p + q) + (r * p + width * q) * labels)
    return 2 * config.classifier_hidden_size * (r * width + labels)


def products(size: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """Return a square matrix product in each data type, to be timed.

    Args:
        size: Rows and columns.
        device: Where it runs.
    """
    return {f"product, {name}": _product(size, dtype, device) for name, dtype in DTYPES.items()}


def _product(size: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty(size, size, dtype=dtype, device=device)
    return lambda: torch.mm(left, right, out=out)


def product_flops(size: int) -> int:
    """Return the operations of one of `products`."""
    return 2 * size**3


def stream(num_bytes: int, device: torch.device) -> Callable[[], object]:
    """Return a = a + s * b over large arrays, to be timed for the bandwidth of the memory.

    It moves `STREAM_TRANSFERS` times as many bytes as an array has, in place like an optimiser.

    Args:
        num_bytes: Of one array.
        device: Where it runs.
    """
    a, b = (torch.ones(num_bytes // 4, device=device) for _ in range(2))
    return lambda: a.add_(b, alpha=1e-3)
