"""Run a command by its name: `sase_hf train --help`.

`--help` prints the docstring of the command, which names the usual flags: the flags of a training
are those of classes of transformers, whose import takes seconds. `--help_all` imports them.
"""

import ast
import importlib
import sys
from pathlib import Path

from . import __version__

COMMANDS = (
    "embed",
    "export",
    "predict",
    "push",
    "quickstart",
    "rank",
    "train",
    "visualize",
)


def main() -> None:
    """Run the command that the first word of the command line names; list all without a word."""
    name, *words = sys.argv[1:] or ["--help"]
    if name in COMMANDS:
        sys.argv = [f"sase_hf {name}", *words]
        run_command(name)
    elif name == "--version":
        sys.stdout.write(f"sase_hf {__version__}\n")
    elif name in ("-h", "--help"):
        sys.stdout.write(f"{usage()}\n")
    else:
        sys.exit(f"sase_hf: there is no command {name!r}\n{usage()}")


def run_command(name: str) -> None:
    """Run a command with the words of this process; only what truly runs imports torch."""
    if {"-h", "--help"} & {*sys.argv}:
        first_line = f"usage: sase_hf {name} ...; --help_all lists every flag"
        sys.stdout.write(f"{first_line}\n\n{docstring(name)}\n")
    else:
        importlib.import_module(f"sase_hf.commands.{name}").main()


def usage() -> str:
    """Return the list of the commands, each with the first line of its docstring."""
    lines = [f"  {name:<20}{docstring(name).splitlines()[0]}" for name in COMMANDS]
    return "\n".join(["usage: sase_hf COMMAND ...; COMMAND --help tells more", "", *lines])


def docstring(command: str) -> str:
    """Return the docstring of a command, which is not imported."""
    source = Path(__file__).with_name("commands") / f"{command}.py"
    return str(ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
