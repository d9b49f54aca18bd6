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


@pytest.mark.parametrize("output", ["linked.csv", "twin.csv"])
def test_check_output_refuses_an_input_under_any_name(rows: str, output: str) -> None:
    with pytest.raises(FileExistsError, match=rf"cannot write {output}: this command uses it"):
        check_output(output, [None, "OWNER/NAME", rows])


@pytest.mark.parametrize(
    ("marker", "output", "is_refused"),
    [
        ("config.json", "README.md", True),
        ("config.json", "page.html", False),
        ("train.csv", "page.html", True),
    ],
)
def test_check_output_refuses_parts_of_a_folder_that_is_read(
    rows: str, marker: str, output: str, is_refused: bool
) -> None:
    """Of a checkpoint, what loading reads; of data, every file, which would become rows."""
    Path("folder", marker).touch()
    if not is_refused:
        check_output(f"folder/{output}", ["folder"])
        return
    with pytest.raises(FileExistsError, match=f"{output}: folder is read, and such a file is a p"):
        check_output(f"folder/{output}", ["folder"])
