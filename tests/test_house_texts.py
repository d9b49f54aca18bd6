"""The house rules on texts: what the README, the packaging and the records claim is so."""

import ast
import fnmatch
import importlib
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import chain, groupby
from pathlib import Path

import pytest
import transformers
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import sase_hf
from sase_hf.training.command_line import parse_arguments

ROOT = Path(__file__).parents[1]
# Pictures hold no text; the tests of what a record keeps private are about such paths.
MACHINE_EXEMPT = ("*.png", "test_privacy.py", "test_records.py")

# Paths of somebody's machine.
MACHINE = re.compile(r"/(?:root|home|tmp|Users)/\w|\b[A-Z]:\\+Users\b")
# Figures with a decimal point or a thousands separator; "5 classes" is not measured.
FIGURE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.,])")


def read(name: str) -> str:
    """Return a text of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


README = read("README.md")
PROJECT = tomllib.loads(read("pyproject.toml"))["project"]


def code_blocks(language: str) -> list[str]:
    """Return the README's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """Return what stands in the README under a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, flags=re.DOTALL | re.MULTILINE)
    assert found, f"README.md has no section {title!r}"
    return found[1]


def shipped_files() -> Iterator[Path]:
    """Yield the files of the repository but for those that .gitignore names."""
    lines = read(".gitignore").splitlines()
    rules = [".git", *(line.strip("/") for line in lines if line.strip("# "))]

    def is_shipped(name: str) -> bool:
        return not any(fnmatch.fnmatch(name, rule) for rule in rules)

    for folder, folders, names in os.walk(ROOT):
        folders[:] = filter(is_shipped, folders)  # what is left out here is not walked
        yield from (Path(folder, name) for name in filter(is_shipped, names))


def figures_without_record(table: str, records: dict[str, object]) -> list[str]:
    """Return the figures in tables that are in no record which their row links to.

    A figure may be rounded and may be a percentage of what the record holds. Columns whose heading
    names the paper are compared with nothing.
    """
    missing = []
    for headings, row in rows_of_tables(table):
        linked = [name for name in records if f"({name})" in "|".join(row)]
        held = [number for name in linked for number in numbers_in(records[name])]
        for heading, cell in zip(headings, row, strict=True):
            for figure in FIGURE.findall(re.sub(r"\]\([^)]*\)", "]", cell)):
                decimals = len(figure.partition(".")[2])
                forms = {f"{scale * number:,.{decimals}f}" for number in held for scale in (1, 100)}
                if "paper" not in heading.lower() and figure not in forms:
                    missing.append(figure)
    return missing


def rows_of_tables(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the rows of all tables in a text, each with the heading of its table."""
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            heading, _, *rows = (line.strip("|").split("|") for line in lines)
            yield from ((heading, row) for row in rows)


def numbers_in(value: object) -> Iterator[float]:
    """Yield every number in a record, however deep."""
    if isinstance(value, dict):
        for member in value.values():
            yield from numbers_in(member)
    elif isinstance(value, list):
        yield from numbers_in(dict(enumerate(value)))
    elif isinstance(value, int | float):
        yield float(value)


def test_no_file_names_a_machine() -> None:
    """A path of somebody's machine helps nobody else, and tells where a thing was made."""
    files = list(shipped_files())
    assert ROOT / "README.md" in files, "the premise: files are found"
    for path in files:
        if any(path.match(pattern) for pattern in MACHINE_EXEMPT):
            continue
        found = MACHINE.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(ROOT)} says {found}"


def test_the_figures_in_the_readme_come_from_records() -> None:
    """A number without a measurement behind it is an opinion."""
    paths = (ROOT / "model_cards/records").rglob("*.json")
    records = {path.relative_to(ROOT).as_posix(): json.loads(path.read_text()) for path in paths}
    for heading in ("Results", "Speed", "See what it reads"):
        assert figures_without_record(section(heading), records) == []


def test_a_figure_without_a_record_is_noticed() -> None:
    """The comparison above finds an invented figure, a wrong digit and a figure of another run."""
    records = {"a.json": {"rows": 1234, "accuracy": 0.64215}, "b.json": {"wall": {"minutes": 3.25}}}
    heading = "| run | accuracy | minutes | paper |\n|---|---|---|---|\n"
    right = "| [a](a.json), 1,234 rows | 64.2 % | | 99.9 |\n| [b 1.5](b.json) | | 3.2 | |\n"
    assert figures_without_record(heading + right.replace(" 1.5", ""), records) == []
    assert figures_without_record(heading + right, records) == ["1.5"]
    assert figures_without_record(heading + right.replace("64.2", "64.3"), records) == [
        "64.3",
        "1.5",
    ]
    other = "| [b](b.json), 1,234 rows | 64.2 | 3.25 | |"
    assert figures_without_record(heading + other, records) == ["1,234", "64.2"]


@pytest.mark.parametrize("block", code_blocks("python"))
def test_the_readme_imports_names_that_exist(block: str) -> None:
    """A reader copies the examples before reading anything else."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "pathlib":
            for alias in node.names:
                assert hasattr(importlib.import_module(node.module), alias.name), alias.name


def test_the_texts_name_flags_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command for the training script is one it takes; every flag named is some script's."""
    lines = "".join(code_blocks("sh")).replace("\\\n", " ").splitlines()
    commands = [line.partition("scripts/train.py ")[2] for line in lines if "train.py -" in line]
    assert commands, "the premise: there is a command"
    for command in commands:
        parse_arguments(shlex.split(command))
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["--help_all"])
    of_other_programs = {"strict", "standalone", "nproc_per_node", "multi_gpu", "num_processes"}
    of_other_programs |= {"num_machines", "machine_rank", "main_process_ip", "main_process_port"}
    of_other_programs |= {"cpu"}
    of_other_programs |= {
        flag
        for path in (ROOT / "scripts").glob("*.py")
        for flag in re.findall(r'"--([\w-]+)"', path.read_text(encoding="utf-8"))
    }
    known = of_other_programs | set(re.findall(r"--([\w-]+)", capsys.readouterr().out))
    if Version(transformers.__version__) < Version("5.16"):
        known.add("activation_checkpointing")
    named = re.findall(
        r"(?<![\w-])--(\w[\w-]*)", README + read("CONTRIBUTING.md") + read("SECURITY.md")
    )
    assert set(named) - known == set()


def test_links_between_the_texts_lead_somewhere() -> None:
    """A file that moved takes its links along."""
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", read(name)):
            assert (ROOT / target).exists(), f"{name} links to {target}"


def test_every_place_gives_the_same_version() -> None:
    """A release is cited, installed and described by one number."""
    newest = re.search(r"^## \[(.+?)\]", read("CHANGELOG.md"), flags=re.MULTILINE)
    assert newest
    cited = yaml.safe_load(read("CITATION.cff"))["version"]
    assert {newest[1], cited, sase_hf.__version__} == {PROJECT["version"]}


def test_the_constraints_pin_a_version_in_every_range() -> None:
    """What is tested must be what may be installed; a new dependency must be pinned as well."""
    pins = dict(
        line.split("==")
        for line in read("constraints.txt").splitlines()
        if not line.startswith("#")
    )
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *chain(*extras.values())]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:  # the tests need what users may add
            assert requirement.extras == extras.keys() - {"test", "lint"}
            continue
        version = pinned.get(canonicalize_name(requirement.name), "none")
        assert version != "none", f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), f"{line} excludes the tested {version}"


def test_make_lists_its_targets() -> None:
    """`make` alone is the first thing a stranger types; every target must be in its answer."""
    phony = re.search(r"^\.PHONY: (.+)", read("Makefile"), flags=re.MULTILINE)
    assert phony
    answer = subprocess.check_output(["make", "--no-print-directory"], cwd=ROOT, text=True)
    assert [line.split()[1] for line in answer.splitlines()] == phony[1].split()


def test_the_merge_check_can_be_run() -> None:
    """It is called by its path, so it must be executable."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
