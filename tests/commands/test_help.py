"""What `--help` and `--version` print, and what they need for it."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from sase_hf import __version__
from sase_hf.__main__ import COMMANDS, docstring

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words",
    ["--version", "nothing", "train --help"],
)
def test_command_shows_its_help_without_torch(words: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['sase_hf', *{words.split()}]\n"
        "try:\n"
        "    runpy.run_module('sase_hf', run_name='__main__')\n"
        "finally:\n"
        "    assert not {'torch', 'transformers', 'numpy'} & {*sys.modules}, 'heavy'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "heavy" not in done.stderr
    assert (done.returncode == 0) == (words != "nothing")
    shown = f"sase_hf {__version__}\n" if "version" in words else "usage: sase_hf "
    assert (done.stdout or done.stderr.partition("\n")[2]).startswith(shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_script_of_a_clone_shows_the_help_of_its_command(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ROOT / "scripts" / f"{command}.py"
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    runpy.run_path(script, run_name="__main__")
    assert docstring(command) in capsys.readouterr().out
