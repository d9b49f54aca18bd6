"""This process: the memory it keeps, what its processor computes, and a fresh process beside it."""

import ctypes
import multiprocessing
import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any

import torch
from torch import nn

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory it frees, for its next allocations.

    glibc hands large pieces back to the system, and the next training step on a CPU waits for the
    same pages again: up to half of a step with large layers. The call is the same as starting the
    process with MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1. Memory in use then never shrinks
    below its peak. Results do not change. Other C libraries need no such setting.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def limit_compiled_code() -> None:
    """Let oneDNN keep the code of 512 operations, not 1,024; call it before a model runs.

    In bfloat16, each shape of a block has LSTM code of its own, of a MiB each on long texts. An
    existing value of ONEDNN_PRIMITIVE_CACHE_CAPACITY is kept.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")


@cache
def trains_lstm_in_bfloat16() -> bool:
    """Return whether this processor trains an LSTM under autocast to bfloat16.

    oneDNN has no such LSTM for a processor without AVX-512, and torch raises where one is asked
    for. An LSTM of one unit, which takes a millisecond, shows it.
    """
    lstm = nn.LSTM(1, 1)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            lstm(torch.zeros(1, 1, 1))[0].sum().backward()
    except RuntimeError:
        return False
    return True


def is_fast_in_bfloat16() -> bool:
    """Return whether the GPU, or else the processor, is faster in bfloat16 than in float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() and trains_lstm_in_bfloat16()


def in_fresh_process(work: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns in a process that has only imported the package.

    The function stands at the top level of a module; its arguments are pickled. RuntimeError is
    raised if the process ends before the function returns.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sase_hf"])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(work, *args).result()
        except BrokenProcessPool as reason:
            raise RuntimeError(
                "the fresh process ended before its work was done: it ran out of memory, or your "
                'script calls this outside of `if __name__ == "__main__":`'
            ) from reason
