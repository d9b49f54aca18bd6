"""Freed memory stays with the process, where the C library can be told so."""

import platform
import resource
import subprocess
import sys

import pytest

from sase_hf.utils import memory
from sase_hf.utils.memory import keep_freed_memory

# Allocates and frees 64 MiB again and again and prints how many pages the system had to supply.
PROGRAM = f"""
import resource, runpy, sys
if sys.argv[1] == "kept":
    assert runpy.run_path({memory.__file__!r})["keep_freed_memory"]()
bytearray(2**26)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    bytearray(2**26)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_keep_freed_memory_saves_page_faults() -> None:
    """The pages of a large tensor come once, not at every step; without the call they do."""
    faults = {
        way: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True
            ).stdout
        )
        for way in ("kept", "returned")
    }
    pages = 10 * 2**26 // resource.getpagesize()
    assert faults["kept"] < pages / 4
    assert faults["returned"] > pages / 2, "the premise is that the system is asked each time"


def test_keep_freed_memory_leaves_other_c_libraries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS, Windows and musl there is no such setting; that is an answer and no error."""
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert keep_freed_memory() is False
