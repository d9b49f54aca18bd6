"""The layout: what travels, and what must be installed."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from transformers.dynamic_module_utils import get_imports, get_relative_imports

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sase_hf"
TRAVELLING = [
    path for path in PACKAGE.glob("models/*.py") if path.stem not in ("__init__", "families")
]
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
    folders = {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.*")}
    listed = {*settings["tool"]["setuptools"]["packages"]}
    assert listed == {name.replace("/", ".") for name in folders if "__pycache__" not in name}


@pytest.mark.parametrize("path", sorted(TRAVELLING), ids=lambda path: path.name)
def test_travelling_file_imports_only_what_its_reader_has(path: Path) -> None:
    """It runs flat beside a checkpoint, on a machine where sase_hf is not installed."""
    assert {*get_imports(path)} <= TRAVELLING_IMPORTS, (
        "transformers asks for them, but not in `try`"
    )
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    modules = {(node.level, node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    # transformers finds relative imports by a regular expression, which a docstring can fool.
    assert set(get_relative_imports(path)) == {name for level, name in modules if level}
    # Postponed annotations would silently end the type checks of a strict config.
    assert (0, "__future__") not in modules
