"""The files of a Space on the Hugging Face Hub that shows the page of `demo`.

A Space brings Gradio. Everything else comes along: this package, the model if it is a folder, the
examples, and the list of what to install.
"""

import json
import platform
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from ..models.self_attentive.pipeline_self_attentive import SelfAttentionPipeline
from .demo import TITLE, choose_examples

MODEL_FOLDER = "model"
EXAMPLES_NAME = "examples.jsonl"

_README = """\
---
{front_matter}---

See which words a structured self-attentive model (Lin et al., ICLR 2017) reads, hop by hop.

The variable `MODEL` in the settings of the Space names another model of this kind;
`{examples}` holds the examples to choose from.
"""

_APP = '''\
"""Show what a model reads; the variable MODEL of the Space names another model."""

import os

from sase_hf.serving.demo import build_page, load_pipeline, read_examples, serve

explain = load_pipeline(os.environ.get("MODEL", {model!a}))
page = build_page(explain, {title!a}, read_examples({examples!a}, {columns!a}))
serve(page)
page.block_thread()
'''


def write_space(
    folder: str | Path,
    explain: SelfAttentionPipeline,
    title: str = TITLE,
    examples: Sequence[Sequence[str]] | None = None,
) -> None:
    """Write what a Space needs, ready to be uploaded.

    Args:
        folder: Where to; it must be new or empty.
        explain: The `self-attention` pipeline. A model loaded from a folder is copied; one loaded
            by its name on the Hub is loaded from there again.
        title: The heading of the page.
        examples: Texts to choose from; by default those of the page.

    Raises:
        ValueError: If the folder holds files, or an example has another number of texts than the
            model reads.
    """
    rows = choose_examples(explain, examples)
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name a new folder for the Space")
    package = Path(__file__).parents[1]
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    model = str(explain.model.name_or_path)
    is_local = Path(model).is_dir()
    if is_local:
        explain.save_pretrained(str(folder / MODEL_FOLDER))

    columns = ["text", "text_pair"] if explain.model.reads_pairs else ["text"]
    texts = {
        "README.md": _README.format(
            front_matter=_front_matter(title, None if is_local else model), examples=EXAMPLES_NAME
        ),
        "app.py": _APP.format(
            model=MODEL_FOLDER if is_local else model,
            title=title,
            examples=EXAMPLES_NAME,
            columns=columns,
        ),
        "requirements.txt": "".join(
            f"{line}\n" for line in metadata.requires("sase_hf") or () if "extra ==" not in line
        ),
        EXAMPLES_NAME: "".join(
            f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _front_matter(title: str, model: str | None) -> str:
    """Return what the Hub reads of a Space's README.md."""
    entries: dict[str, Any] = {
        "title": title,
        "sdk": "gradio",
        "sdk_version": metadata.version("gradio"),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "app_file": "app.py",
    }
    if model is not None:
        entries["models"] = [model]
    text: str = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
    return text


__all__ = ["write_space"]
