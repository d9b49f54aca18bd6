"""No script replaces a file that it reads."""

from pathlib import Path

import pytest
from checkpoints import assert_refuses_an_output_that_it_reads, script_main


@pytest.mark.parametrize(
    "command",
    [
        "visualize runs/a --compare runs/b --text x --output runs/b/heatmap.svg",
        "rank runs/a --queries rows.jsonl --documents emb --output rows.jsonl",
    ],
)
def test_script_refuses_an_output_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refuses_an_output_that_it_reads(command, tmp_path)


def test_quickstart_deletes_no_file_that_a_flag_names(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    mine = tmp_path / "model/rows.csv"
    mine.write_text("mine")
    words = ["--output_dir", str(tmp_path), "--train_file", str(mine)]
    with pytest.raises(SystemExit, match="cannot read"):
        script_main("quickstart")(words)
    assert mine.read_text() == "mine"
