"""Outputs that would replace what a command reads."""

import os
from pathlib import Path

import pytest

from sase_hf.utils.files import check_output


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("text")
    Path("linked.csv").symlink_to("rows.csv")
    os.link("rows.csv", "twin.csv")
    Path("folder").mkdir()
    return "rows.csv"


@pytest.mark.parametrize(
    ("marker", "output"),
    [
        ("config.json", "linked.csv"),
        ("config.json", "twin.csv"),
        ("config.json", "folder/README.md"),
        ("train.csv", "folder/page.html"),
    ],
)
def test_check_output_refuses_what_is_read_under_any_name(
    rows: str, marker: str, output: str
) -> None:
    """Of a checkpoint, what loading reads; of data, every file, which would become rows."""
    Path("folder", marker).touch()
    with pytest.raises(FileExistsError, match=f"cannot write {output}: this command uses it"):
        check_output(output, [rows, "folder"])


def test_check_output_allows_what_loading_a_folder_does_not_read(rows: str) -> None:
    Path("folder/config.json").touch()
    check_output("folder/page.html", [None, "OWNER/NAME", rows, "folder"])
