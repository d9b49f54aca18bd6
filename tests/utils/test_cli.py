"""The frame of the scripts: version, misspelt words, home folder, any output."""

import io
import re
import sys

import pytest
from checkpoints import script_main

from sase_hf import __version__
from sase_hf.__main__ import main
from sase_hf.utils.cli import errors_in_one_line


def test_sase_hf_lists_the_commands_for_a_misspelt_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sase_hf", "visualise"])
    with pytest.raises(SystemExit, match=r"no command 'visualise'\n.*\n\n.*  embed "):
        main()


@pytest.mark.parametrize("name", ["train", "predict", "sase_hf"])
def test_version_is_that_of_the_package(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sase_hf", "--version"])
    if name == "sase_hf":
        main()
    else:
        with pytest.raises(SystemExit, match="0"):
            script_main(name)(["--version"])
    assert re.fullmatch(rf"sase_hf {re.escape(__version__)}\n", capsys.readouterr().out)


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_scripts_write_characters_that_the_encoding_of_the_output_lacks(
    errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With LC_ALL=C a label such as "g\u00fct" ended a training when its table was printed."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", errors=errors))
    with errors_in_one_line("train.py"):
        sys.stdout.write("g\u00fct")
    sys.stdout.flush()
    assert b"g\\xfct" in written.getvalue()
