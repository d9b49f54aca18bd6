"""The layout: which folder imports which, what travels, what must be installed."""

import ast
import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from transformers.dynamic_module_utils import get_imports, get_relative_imports

from sase_hf.__main__ import COMMANDS
from sase_hf.models import FAMILIES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sase_hf"
MODULES = sorted(PACKAGE.rglob("*.py"))
# A folder imports from those before it; those of one group do not import one another.
ORDER = (
    {"models"},
    {"utils"},
    {"data"},
    {"evaluation", "visualization"},
    {"retrieval", "hub"},
    {"training", "serving"},
    {"tasks"},
    {"commands"},
)
TRAVELLING = {path: family for family in FAMILIES.values() for path in family.files.values()}
TRAVELLING_IMPORTS = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
EXTRAS = PROJECT["optional-dependencies"]
# What only an extra installs, as it is imported.
OPTIONAL = {
    "onnx",
    "onnxruntime",
    "sentence_transformers",
}


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]


def folders_imported_by(path: Path) -> set[str]:
    """Return the folders of the package that a module imports from."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    package = ".".join(parts[:-1])
    targets = set()
    for module, names in imports(path):
        target = importlib.util.resolve_name(module, package)
        targets |= {f"{target}.{name}" for name in names} or {target}
    split = [target.split(".") for target in targets]
    return {names[1] for names in split if names[0] == "sase_hf" and len(names) > 2}


def test_folders_import_one_way() -> None:
    allowed: set[str] = set()
    for group in ORDER:
        for folder in group:
            modules = sorted((PACKAGE / folder).rglob("*.py"))
            assert modules, f"there is no folder {folder}"
            for path in modules:
                upward = folders_imported_by(path) - allowed - {folder}
                assert not upward, f"{path.relative_to(ROOT)} must not import from {upward}"
        allowed |= group
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == allowed


def test_wheel_holds_every_folder_of_the_package() -> None:
    """Without these a user who installed it could not run `python -m sase_hf`."""
    listed = SETTINGS["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.*")}
    assert set(listed) == {name.replace("/", ".") for name in folders if "__pycache__" not in name}


def test_scripts_of_a_clone_are_the_commands_of_the_package() -> None:
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert scripts == set(COMMANDS)


@pytest.mark.parametrize("path", TRAVELLING, ids=lambda path: path.name)
def test_travelling_file_imports_only_what_its_reader_has(path: Path) -> None:
    """It runs flat beside a checkpoint, on a machine where sase_hf is not installed."""
    assert {*get_imports(path)} <= TRAVELLING_IMPORTS, (
        "transformers asks for them, but not in `try`"
    )
    modules = {module for module, _ in imports(path)}
    relative = {module[1:] for module in modules if module.startswith(".")}
    assert relative <= {Path(name).stem for name in TRAVELLING[path].files}
    # transformers finds relative imports by a regular expression, which a docstring can fool.
    assert set(get_relative_imports(path)) == relative
    # Postponed annotations would silently end the type checks of a strict config.
    assert "__future__" not in modules


def test_imported_packages_are_declared() -> None:
    """A package that only another one brings can leave the same way."""
    installed_by = importlib.metadata.packages_distributions()
    scripts, tests = (sorted((ROOT / name).rglob("*.py")) for name in ("scripts", "tests"))
    own = {"sase_hf", "transformers_tests"}
    own |= {path.stem for path in (*scripts, *tests)}
    own |= {path.parent.name for path in scripts}
    extras = [lines for name, lines in EXTRAS.items() if name not in ("test", "lint")]
    of_users = [line for lines in extras for line in lines]
    for paths, extra in ((MODULES + scripts, of_users), (tests, of_users + EXTRAS["test"])):
        lines = PROJECT["dependencies"] + extra
        declared = {canonicalize_name(Requirement(line).name) for line in lines} | {"pytest"}
        for path in paths:
            for name in {module.split(".")[0] for module, _ in imports(path)} - own - {""}:
                if name not in sys.stdlib_module_names:
                    bringers = {canonicalize_name(found) for found in installed_by.get(name, ())}
                    assert bringers & declared, f"{path.name} imports {name}: not in pyproject.toml"


def test_base_install_imports_every_module() -> None:
    """What draws or measures imports the package of its extra when it is used, not before."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES]
    names = [name.removesuffix(".__init__") for name in names]
    code = (
        "import importlib, sys\n"
        f"for name in {OPTIONAL}:\n"
        "    sys.modules[name] = None  # an import of it now fails as if it were not installed\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
