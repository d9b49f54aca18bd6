"""The frame of the scripts: version, misspelt words, home folder, any output."""

import io
import sys

import pytest
from checkpoints import script_main

from sase_hf import __version__
from sase_hf.utils.cli import errors_in_one_line


def test_version_of_a_command_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        script_main("predict")(["--version"])
    assert capsys.readouterr().out == f"sase_hf {__version__}\n"


def test_scripts_write_characters_that_the_encoding_of_the_output_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With LC_ALL=C a label such as "g\u00fct" ended a training when its table was printed."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    with errors_in_one_line("train.py"):
        sys.stdout.write("g\u00fct")
    sys.stdout.flush()
    assert b"g\\xfct" in written.getvalue()


def test_errors_in_one_line_leave_those_of_the_program() -> None:
    with (
        pytest.raises(SystemExit, match=r"^a\.py: no flag"),
        errors_in_one_line("b/a.py"),
    ):
        raise ValueError("no flag")
    with pytest.raises(RuntimeError, match="of the program"), errors_in_one_line("a.py"):
        raise RuntimeError("of the program")
