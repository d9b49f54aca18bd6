"""Files that are written whole or not at all."""

import os
import resource
import sys
from pathlib import Path

import pytest

from sase_hf.utils.files import write_text


def test_write_text_keeps_the_file_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stands for it.

    What is written is flushed: else a power cut could leave an empty file under the name.
    """
    # Python would write the byte code of what it imports cut off.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "page.html"
    path.write_text("earlier")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=r"^cannot write .*page\.html: File too large"):
            write_text(path, "x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "earlier")]
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    write_text(path, "x" * 200)
    assert path.stat().st_size == 200
    assert flushed
