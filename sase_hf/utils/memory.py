"""Freed memory that is used again instead of being fetched anew from the system.

glibc hands large pieces back to the system as soon as they are freed, and the next training step on
a CPU waits for the same pages again: up to half of a step with large layers.
"""

import ctypes
import platform

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
