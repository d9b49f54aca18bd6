"""A process: its memory, and the signal that ends it."""

import ctypes
import os
import platform
import signal
from pathlib import Path

import pytest

from sase_hf.utils.process import interrupted_by_sigterm, keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries need no setting")
def test_keep_freed_memory_leaves_freed_pages_in_the_process() -> None:
    """Without it, glibc gives 64 MiB back at once, and the next step waits for new pages."""
    keep_freed_memory()
    libc, size = ctypes.CDLL(None), 2**26
    libc.malloc.restype = ctypes.c_void_p
    piece = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
    ctypes.memset(piece, 1, size)
    used = resident_bytes()
    libc.free(piece)
    assert used - resident_bytes() < size / 2


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_interrupted_by_sigterm_raises_once_and_leaves_the_handler_as_it_was() -> None:
    """A second signal must not end the cleaning up."""
    usual = signal.getsignal(signal.SIGTERM)
    ends = []

    @interrupted_by_sigterm()
    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            ends.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ends
    assert signal.getsignal(signal.SIGTERM) == usual
