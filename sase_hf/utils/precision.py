"""Whether a device computes in bfloat16, and faster."""

from functools import cache


@cache
def trains_lstm_in_bfloat16() -> bool:
    """Return whether this processor trains an LSTM under autocast to bfloat16, by training one.

    oneDNN has no such LSTM for a processor without AVX-512, and torch raises an error.
    """
    import torch  # here, because commands begin without it

    lstm = torch.nn.LSTM(1, 1)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            lstm(torch.zeros(1, 1, 1))[0].sum().backward()
    except RuntimeError:
        return False
    return True


def is_fast_in_bfloat16(use_cpu: bool = False) -> bool:
    """Return whether the GPU, or else the processor, is faster in bfloat16 than in float32."""
    import torch

    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() and trains_lstm_in_bfloat16()
