"""Freed memory that is used again instead of being fetched anew from the system.

PyTorch's CPU build gets its memory from the C library. glibc hands large pieces back to the system
as soon as they are freed, and the next training step then waits for the system to find and clear
the same pages once more. That costs up to half of a step with large layers.
"""

import ctypes
import platform

# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


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


__all__ = ["keep_freed_memory"]
