"""What a process that trains keeps: freed memory, and less compiled code than by default."""

import os
import platform
import resource
import subprocess
import sys

import pytest

from sase_hf.utils.process import limit_compiled_code

CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"

# Allocates and frees 64 MiB again and again and prints how many pages the system had to supply.
PROGRAM = """
import resource
from sase_hf.utils.process import keep_freed_memory
keep_freed_memory()
bytearray(2**26)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    bytearray(2**26)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_keep_freed_memory_saves_page_faults() -> None:
    """Without the call every page comes ten times."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert int(done.stdout) < 10 * 2**26 // resource.getpagesize() / 4


def test_limit_compiled_code_keeps_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPACITY, "7")
    limit_compiled_code()
    assert os.environ[CAPACITY] == "7"
    monkeypatch.delenv(CAPACITY)
    limit_compiled_code()
    assert 0 < int(os.environ[CAPACITY]) < 1024, "oneDNN's own number"
