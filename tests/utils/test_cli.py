"""The frame of the scripts: any output, errors, and the signal that ends them."""

import os
import signal
import sys
from typing import Any

import pytest

from sase_hf.utils.cli import errors_in_one_line
from sase_hf.utils.process import interrupted_by_sigterm


def test_scripts_write_characters_that_the_encoding_of_the_output_lacks(capsysbinary: Any) -> None:
    """With LC_ALL=C a label such as "g\u00fct" ended a training when its table was printed."""
    sys.stdout.reconfigure(encoding="ascii")  # type: ignore[union-attr]
    with errors_in_one_line("train.py"):
        sys.stdout.write("g\u00fct")
    assert b"g\\xfct" in capsysbinary.readouterr().out


def test_errors_in_one_line_leave_those_of_the_program() -> None:
    with pytest.raises(RuntimeError, match="of the program"), errors_in_one_line("a.py"):
        raise RuntimeError("of the program")


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
