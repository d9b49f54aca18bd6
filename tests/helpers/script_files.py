"""Commands and scripts as modules, for tests that call their functions."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load_command(name: str) -> ModuleType:
    """Import a command of the package."""
    return importlib.import_module(f"sase_hf.commands.{name}")


def load_script(name: str) -> ModuleType:
    """Import a script by its path below `scripts` without `.py`; that alone must run nothing."""
    spec = importlib.util.spec_from_file_location(
        f"{Path(name).name}_script", SCRIPTS / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script
