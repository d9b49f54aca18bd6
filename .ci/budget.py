"""Fail where the project is larger than `budget.toml` beside this file allows.

    python .ci/budget.py

A node is one of Python's syntax tree without the contexts Load, Store and Del, so that formatting
changes no number. A landing lowers the numbers of budget.toml to what it reached; a commit that
raises one says why in its body.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

BUDGET = Path(__file__).with_name("budget.toml")
ROOT = BUDGET.parents[1]


def main() -> None:
    """Print each number beside its budget; exit with 1 if one is above it."""
    allowed = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    found = sizes()
    for name, size in found.items():
        print(f"{name}: {size:,} of {allowed[name]:,}")
    above = [name for name, size in found.items() if size > allowed[name]]
    if above:
        sys.exit(f"above the budget of {BUDGET.relative_to(ROOT)}: {', '.join(above)}")


def sizes() -> dict[str, int]:
    """Return the sizes that have a budget, by name."""
    package = nodes_of("sase_hf")
    return {
        "package_nodes": len(package),
        "package_files": len(list(ROOT.glob("sase_hf/**/*.py"))),
        "package_raises": sum(isinstance(node, ast.Raise) for node in package),
        "test_nodes": len(nodes_of("tests")),
        "laboratory_nodes": len(nodes_of("scripts/lab")),
        "markdown_bytes": sum(path.stat().st_size for path in markdown_files()),
    }


def nodes_of(folder: str) -> list[ast.AST]:
    """Return the nodes of all Python files of a folder."""
    nodes: list[ast.AST] = []
    for path in ROOT.glob(f"{folder}/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes += [
            node for node in ast.walk(tree) if not isinstance(node, ast.Load | ast.Store | ast.Del)
        ]
    return nodes


def markdown_files() -> Iterator[Path]:
    """Yield the Markdown files outside of hidden folders and of `runs`, which training writes."""
    for path in ROOT.rglob("*.md"):
        folders = path.relative_to(ROOT).parts
        if folders[0] != "runs" and not any(name.startswith(".") for name in folders):
            yield path


if __name__ == "__main__":
    main()
