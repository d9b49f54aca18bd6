"""This process: its memory, the signal that ends it, and where it is faster in bfloat16."""

import ctypes
import os
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory it frees, for its next allocations.

    glibc hands large pieces back to the system, and the next training step on a CPU waits for the
    same pages again: up to half of a step with large layers. Memory in use then never shrinks
    below its peak. Other C libraries need no such setting.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def limit_compiled_code() -> None:
    """Let oneDNN keep the code of 512 operations, not 1,024; call it before a model runs.

    In bfloat16, each shape of a block has LSTM code of its own, of a MiB each on long texts.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt once, as Ctrl-C does, so that what is open is closed."""

    def handle(number: int, _: FrameType | None) -> None:
        # A launcher passes the signal on to processes that a scheduler has sent it to already.
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # which alone handles signals
        yield
        return
    usual = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


# ---- bfloat16 ------------------------------------------------------------------------------------


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
