"""A process: errors in one line, and signals."""

import ctypes
import os
import platform
import signal
from pathlib import Path

import pytest
import torch

from sase_hf.utils.cli import errors_in_one_line
from sase_hf.utils.process import Terminated, interrupted_by_signals, keep_freed_memory


def test_errors_in_one_line_know_a_full_disk_by_its_words() -> None:
    for error in (
        Exception("No space left on device (os error 28)"),  # of tokenizers
        RuntimeError("[enforce fail at inline_container.cc:626] . unexpected pos 64 vs 0"),
    ):
        message = r"^a\.py: a file could not be written, is the disk full"
        with pytest.raises(SystemExit, match=message), errors_in_one_line("scripts/a.py"):
            raise error
    with pytest.raises(RuntimeError, match="of the program"), errors_in_one_line("a.py"):
        raise RuntimeError("of the program")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"),
        MemoryError(),
    ],
)
def test_errors_in_one_line_know_the_end_of_the_memory(error: Exception) -> None:
    message = r"^a\.py: out of memory \(.*\); read fewer texts at once$"
    line = errors_in_one_line("a.py", on_out_of_memory="read fewer texts at once")
    with pytest.raises(SystemExit, match=message), line:
        raise error


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


def test_interrupted_by_signals_raises_once_and_leaves_the_handlers_as_they_were() -> None:
    """A second signal must not end the cleaning up."""
    usual = signal.getsignal(signal.SIGTERM)
    ends = []

    @interrupted_by_signals()
    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            ends.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ends
    assert Terminated.status == 143
    assert signal.getsignal(signal.SIGTERM) == usual


def test_errors_in_one_line_leave_a_signal_that_nohup_ignores() -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with errors_in_one_line("a.py"):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, usual)
