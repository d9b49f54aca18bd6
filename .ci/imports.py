"""Fail where a folder of the package imports from one that stands above it.

python .ci/imports.py
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "sase_hf"
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


def main() -> None:
    """Print each import that climbs; exit with 1 if there is one."""
    climbing = [line for folder in PACKAGE.iterdir() if folder.is_dir() for line in climbs(folder)]
    print(*climbing, sep="\n", end="\n" if climbing else "")
    sys.exit(bool(climbing))


def climbs(folder: Path) -> Iterator[str]:
    """Yield the imports of a folder from folders that are not below it."""
    below: set[str] = {folder.name, ""}
    for group in ORDER:
        if folder.name in group:
            break
        below |= group
    for path in folder.rglob("*.py"):
        depth = len(path.relative_to(PACKAGE).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == depth:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                for name in names:
                    other = name.partition(".")[0]
                    if (PACKAGE / other).is_dir() and other not in below:
                        yield f"{path.relative_to(PACKAGE.parent)}:{node.lineno} imports {name}"


if __name__ == "__main__":
    main()
