"""The notebook of the guide, made of blocks of the texts: run this file to write it."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "scripts/guide/start.ipynb"
TEXT = """\
Replace OWNER in the next cell by the owner of the repository. The cells train a small model on a
synthetic corpus in about a minute, without a GPU, predict, embed, and draw a heatmap."""
START = """\
address = "https://github.com/OWNER/sase_hf"  # of the repository
!git clone -q {address} sase_hf && pip install -q ./sase_hf
%cd sase_hf
!python scripts/quickstart.py"""
END = """\
from sase_hf.visualization import Attention

Attention([result])  # the heatmap"""


def notebook_text() -> str:
    """Return the notebook as JSON: installation, a prediction, embeddings, a heatmap."""
    texts = (ROOT / "README.md", ROOT / "scripts/guide/embed.md")
    text_of_blocks = "\n".join(text.read_text(encoding="utf-8") for text in texts)
    found = re.findall(r"^```python\n(.*?)\n```", text_of_blocks, flags=re.DOTALL | re.MULTILINE)
    blocks = [block for block in found if "runs/quickstart/model" in block][:2]
    text = {"cell_type": "markdown", "metadata": {}}
    code = {**text, "cell_type": "code", "outputs": [], "execution_count": None}
    sources = [source.splitlines(keepends=True) for source in (TEXT, START, *blocks, END)]
    cells = [
        {**(code if i else text), "id": f"cell-{i}", "source": source}
        for i, source in enumerate(sources)
    ]
    python = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    form = {"metadata": python, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps({"cells": cells, **form}, indent=1) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook_text(), encoding="utf-8")
