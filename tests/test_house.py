"""The house rules on code: what a file may import, how long it may be, what it documents."""

import ast
import graphlib
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
from transformers.dynamic_module_utils import get_relative_import_files, get_relative_imports

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "sase_hf").rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
EVERYTHING = [*MODULES, *SCRIPTS, *TESTS]
MODELING = ROOT / "sase_hf/models/self_attentive/modeling_self_attentive.py"
TRAVELLING = [path for path in MODULES if path.name.endswith("_self_attentive.py")]
TRAVELLING_IMPORTS = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTIONS = importlib.metadata.packages_distributions()

USER_EXTRAS = (
    "viz",
    "captum",
    "onnx",
    "baselines",
    "sentence-transformers",
    "optuna",
    "ray",
    "demo",
)
OPTIONAL = (
    "matplotlib",
    "captum",
    "onnx",
    "onnxruntime",
    "sklearn",
    "optuna",
    "ray",
    "sentence_transformers",
    "gradio",
)
NEED_GRADIO = ("sase_hf.serving.demo",)


def for_each(paths: list[Path]) -> pytest.MarkDecorator:
    """Make one test of each file, named after it."""
    cases = [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]
    return pytest.mark.parametrize("path", cases)


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield every imported module, with its leading dots, and the names taken from it."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]


@for_each(TRAVELLING)
def test_a_travelling_file_imports_only_what_its_reader_has(path: Path) -> None:
    """It runs flat beside a checkpoint, on a machine where sase_hf is not installed."""
    siblings = {f".{file.stem}" for file in TRAVELLING}
    for module, names in imports(path):
        allowed = module in siblings or module.split(".")[0] in TRAVELLING_IMPORTS
        assert allowed, f"a checkpoint cannot bring along {module or names}"


@for_each(TRAVELLING)
def test_transformers_finds_the_relative_imports_that_python_finds(path: Path) -> None:
    """It looks for them by a regular expression, which a line of a docstring can fool."""
    relative = {module[1:] for module, _ in imports(path) if module.startswith(".")}
    assert set(get_relative_imports(path)) == relative


@for_each(TRAVELLING)
def test_a_travelling_file_keeps_its_annotations(path: Path) -> None:
    """Postponed annotations would silently end the type checks of a strict config."""
    assert "__future__" not in {module for module, _ in imports(path)}


def test_every_travelling_file_is_reached_from_the_model() -> None:
    """Transformers copies what the model's file imports; another file would stay behind."""
    reached = {Path(name).name for name in get_relative_import_files(MODELING)}
    assert reached | {MODELING.name} == {path.name for path in TRAVELLING}


def test_modules_do_not_import_one_another_in_circles() -> None:
    """In a circle no module can be read, or changed, on its own."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    modules = {name.removesuffix(".__init__"): path for path, name in names.items()}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = set()
        for module, taken in imports(path):
            target = importlib.util.resolve_name(module, package)
            members = {f"{target}.{name}" for name in taken} & modules.keys()
            targets |= members or {target}
        graph[name] = targets & modules.keys() - {name}
    assert graph["sase_hf"], "the premise: imports between modules are found"
    graphlib.TopologicalSorter(graph).prepare()


@for_each(EVERYTHING)
def test_every_imported_package_is_declared(path: Path) -> None:
    """A package that comes only through another one can leave the same way."""
    is_test = path in TESTS or path.name == "common_tests.py"
    extras = (*USER_EXTRAS, "test") if is_test else USER_EXTRAS
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    own = {"sase_hf", "scripts", "benchmarking", "studying", "synthetic", "tests"}
    own |= {file.stem for file in EVERYTHING}
    for name in {module.split(".")[0] for module, _ in imports(path)} - own - {""}:
        if name not in sys.stdlib_module_names:
            bringers = {canonicalize_name(bringer) for bringer in DISTRIBUTIONS.get(name, [])}
            assert bringers & declared, f"{name} is not in pyproject.toml"


def test_the_base_install_is_enough_for_all_but_the_demo() -> None:
    """What draws or measures imports the package of its extra when it is used, not before."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES]
    needless = [name for name in names if name not in NEED_GRADIO and "__main__" not in name]
    code = (
        "import importlib, sys\n"
        f"for name in {OPTIONAL}:\n"
        "    sys.modules[name] = None  # an import of it now fails as if it were not installed\n"
        f"for name in {needless}:\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
