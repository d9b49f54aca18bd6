"""Run a script by its name, also where only the package is installed: `sase_hf train --help`."""

import difflib
import importlib
import os
import re
import sys
from pathlib import Path

from . import __version__

HERE = Path(__file__).parent
# A wheel holds them in the package, a clone beside it.
SCRIPTS = next(path for path in (HERE / "scripts", HERE.parent / "scripts") if path.is_dir())


def main() -> None:
    """Run the script that the first word of the command line names; list all without a word."""
    scripts = {path.stem: path for path in sorted(SCRIPTS.glob("*.py"))}
    name, *words = sys.argv[1:] or ["--help"]
    if name not in scripts:
        texts = {name: path.read_text(encoding="utf-8") for name, path in scripts.items()}
        lines = (f"  {name:<20}{text[3:].splitlines()[0]}" for name, text in texts.items())
        listed = "\n".join(["usage: sase_hf COMMAND ...; COMMAND --help tells more", "", *lines])
        if name == "--version":
            sys.stdout.write(f"sase_hf {__version__}\n")
            return
        if name not in ("-h", "--help"):
            close = difflib.get_close_matches(name, scripts, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            sys.exit(f"sase_hf: there is no command {name!r}{hint}\n{listed}")
        sys.stdout.write(f"{listed}\n")
        return
    sys.path.insert(0, str(SCRIPTS))
    script = importlib.import_module(name)
    text = re.sub(r"python scripts/(\w+)\.py", r"sase_hf \1", script.__doc__ or "")
    script.__doc__ = text.replace("scripts/recipes", os.path.relpath(SCRIPTS / "recipes"))
    sys.argv = [f"sase_hf {name}", *words]
    script.main()


if __name__ == "__main__":
    main()
