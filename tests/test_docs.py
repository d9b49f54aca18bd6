"""The texts for readers: their examples run, their figures come from records."""

import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest
from checkpoints import save_publishable
from notebook import NOTEBOOK, notebook_text
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rows import write_csv, write_jsonl
from runs import review_rows, write_rows
from script_files import load_script

from sase_hf import SelfAttentiveConfig

ROOT = Path(__file__).parents[1]
GUIDE = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("scripts/guide/*.md"))
FOLDERS = ("", "scripts/", "scripts/lab/", "model_cards/")
TEXTS = (*(f"{folder}README.md" for folder in FOLDERS), *GUIDE)
TEXTS += ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Figures with a decimal point or a thousands separator; "5 classes" is not measured.
FIGURE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.,])")
# Commands with one of these words need a Hub, data, a browser or minutes.
NOT_RUN = ("OWNER/NAME", "pairs", "google-bert/", "retrieval", "translation", "app.py")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), flags=re.DOTALL | re.MULTILINE)


def commands(name: str) -> Iterator[list[str]]:
    for line in "".join(code_blocks(name, "sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        is_python = words and words[0] in ("python", ".venv/bin/python")
        if is_python and not any(mark in line for mark in NOT_RUN):
            yield words[1:]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    save_publishable(tmp_path / "runs/quickstart/model")
    rows = review_rows(40)
    corpus = tmp_path / "runs/quickstart/corpus"
    corpus.mkdir()
    labels = SelfAttentiveConfig.from_pretrained("runs/quickstart/model").id2label
    known = [{**row, "label": labels[i % len(labels)]} for i, row in enumerate(rows)]
    write_rows(corpus / "reviews.test.jsonl", known)
    write_csv(tmp_path / "reviews.csv", [{"text": r["text"], "stars": r["label"]} for r in rows])
    write_csv(tmp_path / "marked.csv", [{**row, "rationale": "[[0, 3]]"} for row in rows])
    write_csv(tmp_path / "new.csv", [{"text": row["text"]} for row in rows])
    marked = {"text": "The meal was good.", "rationale": [[13, 17]]}
    write_jsonl(tmp_path / "marked.jsonl", [marked])
    Path("vectors.txt").write_text("room 0.1 0.2 0.3\nmeal 0.3 0.1 0.2\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")  # the stock Trainer on a CPU
@pytest.mark.parametrize("name", ["README.md", "scripts/guide/pretrained.md"])
def test_examples_run(name: str, reader: Path) -> None:
    blocks = code_blocks(name, "python")
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {})


def test_notebook_is_made_of_the_blocks_of_the_readme_and_shows_a_heatmap(reader: Path) -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert text == notebook_text(), "run tests/helpers/notebook.py"
    _, _, *code = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    before, _, last = "\n".join(code).rpartition("\n")
    names: dict[str, Any] = {}
    exec(before, names)
    assert "breakfast" in eval(last, names)._repr_html_()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [n for n in ("README.md", *GUIDE) if any(commands(n))])
def test_commands_of_the_guides_run(name: str, reader: Path) -> None:
    for path, *words in commands(name):
        words = [word.replace("scripts/", f"{ROOT}/scripts/") for word in words]
        if path.startswith("scripts/"):
            load_script(Path(path).stem).main(words)
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", [path, *words])
                runpy.run_path(path, run_name="__main__")


def rows_of_tables(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    before = ""
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            heading, _, *rows = (re.split(r"(?<!\\)\|", line.strip("|")) for line in lines)
            yield from ((before, heading, row) for row in rows)
        else:
            before = "\n".join(lines).strip().rpartition("\n\n")[2]


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(numbers_in, members))
    elif isinstance(value, int | float):
        yield float(value)


def figures_without_record(text: str, records: dict[str, Any]) -> list[str]:
    """Return the figures in tables that no record linked in their row or just before holds.

    A figure may be rounded, and a percentage of a number in the record. A column whose heading
    names the paper is not compared.
    """
    missing = []
    for before, headings, row in rows_of_tables(text):
        linked = [name for name in records if f"({name})" in before + "|".join(row)]
        held = [number for name in linked for number in numbers_in(records[name])]
        for heading, cell in zip(headings, row, strict=True):
            for figure in FIGURE.findall(re.sub(r"\]\([^)]*\)", "]", cell)):
                decimals = len(figure.partition(".")[2])
                forms = {f"{scale * number:,.{decimals}f}" for number in held for scale in (1, 100)}
                if "paper" not in heading.lower() and figure not in forms:
                    missing.append(figure)
    return missing


def test_figures_in_tables_come_from_records() -> None:
    cards = ROOT / "model_cards"
    records = {}
    for path in (cards / "records").rglob("*.json*"):
        name, text = path.relative_to(cards).as_posix(), path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            records[name] = json.loads(text)
        else:
            lines = map(json.loads, text.splitlines())
            records |= {f"{name}#{record['run']}": record for record in lines}
    linked = re.findall(r"\((records/[^)]*\.json[^)]*)\)", read("model_cards/README.md"))
    assert linked
    assert set(linked) <= records.keys()
    assert figures_without_record(read("model_cards/README.md"), records) == []
    # The means of README.md are those of the pages that the studies make from the records.
    pages = read("model_cards/EXPERIMENTS.md") + read("model_cards/TRANSLATION.md")
    experiments = set(re.findall(r"\d+\.\d+ ± \d+\.\d+", pages))
    shown = set(re.findall(r"\d+\.\d+ ± \d+\.\d+", read("README.md")))
    assert shown
    assert shown <= experiments


def test_links_lead_to_files() -> None:
    for name in TEXTS:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", read(name)):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name} links to {target}"


def test_constraints_pin_a_version_in_every_range() -> None:
    """What is tested must be what may be installed; a new dependency must be pinned as well."""
    pins = [line.split("==") for line in read("constraints.txt").splitlines() if line[0] != "#"]
    pinned = {canonicalize_name(name): version for name, version in pins}
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *chain(*extras.values())]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:  # the tests need what users may add
            assert requirement.extras == extras.keys() - {"test", "lint"}
            continue
        version = pinned.get(canonicalize_name(requirement.name), "none")
        assert requirement.specifier.contains(version), f"{line} excludes the pinned {version}"
