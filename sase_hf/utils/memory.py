"""What a process that trains on a CPU keeps: memory that it freed, and compiled code.

glibc hands large pieces back to the system as soon as they are freed, and the next training step on
a CPU waits for the same pages again: up to half of a step with large layers.
"""

import ctypes
import os
import platform

# oneDNN keeps the code of this many operations, by default 1,024. In bfloat16 those of an LSTM, of
# which each shape of a block is another, take a MiB each on long texts.
COMPILED_OPERATIONS = 512

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def keep_freed_memory() -> bool:
    """Let this process keep the memory it frees, for its next allocations.

    The same as starting it with MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1. Memory in use then
    never shrinks below its peak, which suits a process that trains. Results do not change.

    Returns:
        Whether the C library has the setting; others than glibc need none or have their own.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, -1))


def limit_compiled_code() -> None:
    """Let oneDNN keep less code than it does by default; call it before a model runs.

    Who has set ONEDNN_PRIMITIVE_CACHE_CAPACITY keeps it.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(COMPILED_OPERATIONS))
