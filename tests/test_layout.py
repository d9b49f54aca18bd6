"""The layout: what travels, and what must be installed."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from transformers.dynamic_module_utils import get_imports, get_relative_imports

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sase_hf"
AT_HOME = {"__init__.py", "families.py"}
TRAVELLING = [path for path in PACKAGE.glob("models/*.py") if path.name not in AT_HOME]
TRAVELLING_IMPORTS = {
    "torch",
    "transformers",
    "huggingface_hub",
    "safetensors",
    *sys.stdlib_module_names,
}


def test_wheel_holds_every_folder_of_the_package() -> None:
    """Without these a user who installed it could not run `python -m sase_hf`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = settings["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.*")}
    assert set(listed) == {name.replace("/", ".") for name in folders if "__pycache__" not in name}


@pytest.mark.parametrize("path", sorted(TRAVELLING), ids=lambda path: path.name)
def test_travelling_file_imports_only_what_its_reader_has(path: Path) -> None:
    """It runs flat beside a checkpoint, on a machine where sase_hf is not installed."""
    assert {*get_imports(path)} <= TRAVELLING_IMPORTS, (
        "transformers asks for them, but not in `try`"
    )
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    modules = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    # transformers finds relative imports by a regular expression, which a docstring can fool.
    relative = {module.module for module in modules if module.level}
    assert set(get_relative_imports(path)) == relative
    # Postponed annotations would silently end the type checks of a strict config.
    assert "__future__" not in [module.module for module in modules]
