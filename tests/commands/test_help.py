"""What `--help` and `--version` print, and what they need for it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
from help_texts import help_by_flags

from sase_hf import __version__
from sase_hf.__main__ import COMMANDS, HELP
from sase_hf.training.command_line import COMMON_FLAGS

ROOT = Path(__file__).parents[2]
WRITE_ANEW = "write it anew: python tests/helpers/help_texts.py"


def parts_of(text: str) -> dict[str, str]:
    """Return what a help text says of each flag, and what stands before the first flag."""
    start, *flags = re.split(r"^  (?=-)", text, flags=re.MULTILINE)
    named = {re.findall(r"--(\w+)", flag)[0]: flag for flag in flags}
    return {"": " ".join(start.split())} | {
        name: " ".join(flag.split()) for name, flag in named.items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_help_text_is_that_of_the_flags(command: str) -> None:
    """The words of transformers about its flags are those of the pinned version."""
    text = (HELP / f"{command}.txt").read_text(encoding="utf-8")
    assert text.isascii(), "a terminal with LC_ALL=C could not show it"
    shown, made = parts_of(text), parts_of(help_by_flags(command))
    assert shown.keys() == made.keys(), WRITE_ANEW
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    is_pinned = f"\ntransformers=={transformers.__version__}\n" in constraints
    for name in shown:
        if is_pinned or name not in COMMON_FLAGS:
            assert shown[name] == made[name], WRITE_ANEW


@pytest.mark.parametrize(
    "words",
    ["--help", "nothing", "train", "train --help", "train --version", "embed -h", "rank --version"],
)
def test_command_shows_its_flags_without_torch(words: str) -> None:
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
def test_script_of_a_clone_shows_the_same_help_without_torch(command: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['{command}.py', '--help']\n"
        f"runpy.run_path('scripts/{command}.py', run_name='__main__')\n"
        "assert not {'torch', 'transformers', 'numpy'} & {*sys.modules}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (HELP / f"{command}.txt").read_text(encoding="utf-8")
