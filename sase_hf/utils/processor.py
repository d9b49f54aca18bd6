"""What the device of this process computes in bfloat16."""

from functools import cache

import torch
from torch import nn


@cache
def trains_lstm_in_bfloat16() -> bool:
    """Say whether this processor trains an LSTM under autocast to bfloat16.

    oneDNN has no such LSTM for a processor without AVX-512, and torch raises where one is asked
    for. The answer is that of an LSTM of one unit, which takes a millisecond.
    """
    lstm = nn.LSTM(1, 1)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            lstm(torch.zeros(1, 1, 1))[0].sum().backward()
    except RuntimeError:
        return False
    return True


def is_fast_in_bfloat16() -> bool:
    """Say whether the GPU, or without one the processor, is faster in bfloat16 than in float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() and trains_lstm_in_bfloat16()
