"""A process: errors in one line, and signals."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from sase_hf.utils.cli import errors_in_one_line


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


# A child inherits a SIGHUP that is ignored, as nohup starts the tests.
WORK = """
import signal
import time
from sase_hf.utils.cli import errors_in_one_line
from sase_hf.utils.process import Terminated, first_termination
noted = []
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with errors_in_one_line("a.py"), first_termination(lambda: noted.append("a signal")):
    print("at work", flush=True)
    while not noted:
        time.sleep(0.01)
    print("saving", flush=True)
    raise Terminated
"""


@pytest.mark.parametrize("open_both", [pty.openpty, os.pipe])
def test_first_termination_lets_a_program_save_whose_terminal_was_closed(
    open_both: Callable[[], tuple[int, int]],
) -> None:
    """What it writes then, to the terminal or to a program beside it, goes nowhere."""
    screen, terminal = open_both()
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=terminal, stderr=terminal)
    os.close(terminal)
    assert os.read(screen, 100).startswith(b"at work")
    os.close(screen)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 129


def test_errors_in_one_line_leave_a_signal_that_nohup_ignores() -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with errors_in_one_line("a.py"):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, usual)
