"""The notebook of the guide, made of blocks of the texts: run this file to write it."""

import ast
import io
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from guides import ROOT, code_blocks

from sase_hf.visualization import attention_svg

NOTEBOOK = ROOT / "scripts/guide/start.ipynb"
TEXT = """\
Replace OWNER in the next cell by the owner of the repository. The cells train a small model on
synthetic reviews in about a minute, without a GPU, show why it answers, and train it again without
a word that is no reason. This page stores pictures; the cells show heatmaps in which you click."""
INSTALL = """\
address = "https://github.com/OWNER/sase_hf"  # of the repository
!git clone -q {address} sase_hf && pip install -q ./sase_hf
%cd sase_hf"""
REVIEWS = """\
import pandas as pd

rows = pd.read_json("sase_hf/commands/synthetic/reviews.train.jsonl.gz", lines=True).head(600)
rows.rename(columns={"label": "stars"})[["text", "stars"]].to_csv("reviews.csv", index=False)"""


def new_cells() -> list[dict[str, Any]]:
    """Return the cells: a text, installation, data, a fit with its reasons, and a correction."""
    blocks = [
        code_blocks(text, "python")[0] for text in ("README.md", "scripts/guide/corrections.md")
    ]
    text = {"cell_type": "markdown", "metadata": {}}
    code = {**text, "cell_type": "code", "outputs": [], "execution_count": None}
    sources = (TEXT, INSTALL, REVIEWS, *blocks)
    return [
        {**(code if i else text), "id": f"cell-{i}", "source": source.strip().splitlines(True)}
        for i, source in enumerate(sources)
    ]


def run_cell(cell: dict[str, Any], names: dict[str, Any]) -> None:
    """Run a cell of Python, and store what it shows: a heatmap as a picture, for every viewer."""
    *before, last = ast.parse("".join(cell["source"])).body
    assert isinstance(last, ast.Expr)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(before, []), NOTEBOOK, "exec"), names)
        shown = eval(compile(ast.Expression(last.value), NOTEBOOK, "eval"), names)
    cell["outputs"] = []
    if text := printed.getvalue():
        lines = text.splitlines(True)
        cell["outputs"] += [{"output_type": "stream", "name": "stdout", "text": lines}]
    if shown is not None:
        assert "breakfast" in shown._repr_html_()
        pictures = {"image/svg+xml": attention_svg(shown.results), "text/plain": repr(shown)}
        data = {kind: picture.splitlines(True) for kind, picture in pictures.items()}
        result = {"output_type": "execute_result", "data": data, "metadata": {}}
        cell["outputs"] += [{**result, "execution_count": None}]


if __name__ == "__main__":
    cells = new_cells()
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("sase_hf").symlink_to(ROOT / "sase_hf")
        for cell in cells[2:]:
            run_cell(cell, names)
    python = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    form = {"metadata": python, "nbformat": 4, "nbformat_minor": 5}
    NOTEBOOK.write_text(json.dumps({"cells": cells, **form}, indent=1) + "\n", encoding="utf-8")
