"""Files that are written whole or not at all."""

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from shown import result

from sase_hf.evaluation.records import write_record
from sase_hf.utils.files import write_text
from sase_hf.visualization import attention_html, save_figure

WRITERS: dict[str, Callable[[Path], Any]] = {
    "page.html": lambda path: write_text(path, attention_html(result("fine"))),
    "figure.svg": lambda path: save_figure(Figure(), path),
    "figure.png": lambda path: save_figure(Figure(), path),
    "record.json": lambda path: write_record({"name": "x" * 200}, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_stay_as_they_were_where_the_disk_is_full(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stands for it."""
    # Python would write the byte code of what it imports cut off.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / name
    path.write_text("earlier")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=rf"^cannot write {path}: File too large; name another"):
            WRITERS[name](path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "earlier")]
    WRITERS[name](path)
    assert path.stat().st_size > 100
