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


def test_check_output_lets_a_folder_that_is_read_get_pages_alone(rows: str) -> None:
    """Another file may be one that loading reads, or become rows."""
    check_output("folder/page.html", ["folder"])
    for output in ("config.json", "rows.csv"):
        with pytest.raises(FileExistsError, match=f"{output}: folder is read"):
            check_output(f"folder/{output}", ["folder"])
