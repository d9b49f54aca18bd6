"""The files that `--help` prints, made from the flags of the commands.

python tests/helpers/help_texts.py

writes them anew, which a new or changed flag needs.
"""

import contextlib
import importlib
import io
import os
import sys
from unittest.mock import patch

from sase_hf.__main__ import COMMANDS, HELP

WIDTH = 100  # columns of a help text


def help_by_flags(command: str) -> str:
    """Return the help that the parser of a command makes; its classes are imported."""
    main = importlib.import_module(f"sase_hf.commands.{command}").main
    columns = patch.dict(os.environ, COLUMNS=str(WIDTH))
    name = patch.object(sys, "argv", [f"sase_hf {command}"])
    shown = io.StringIO()
    with columns, name, contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main(["--help"])
    return shown.getvalue()


if __name__ == "__main__":
    for command in COMMANDS:
        (HELP / f"{command}.txt").write_text(help_by_flags(command), encoding="utf-8")
