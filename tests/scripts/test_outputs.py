"""No script replaces a file that it reads."""

from pathlib import Path

import pytest
from checkpoints import script_main


@pytest.mark.parametrize(
    "command",
    [
        "visualize runs/a --compare runs/b --text x --output runs/b/heatmap.svg",
        "rank runs/a --queries rows.jsonl --documents emb --output rows.jsonl",
        "rank runs/a --queries q.csv --documents rows.jsonl --output rows.jsonl",
    ],
)
def test_script_refuses_an_output_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before it loads anything: none of the files here is what it could read."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("mine")
    for checkpoint in ("runs/a", "runs/b"):
        Path(checkpoint).mkdir(parents=True)
        Path(checkpoint, "config.json").write_text("mine")
    script, *words = command.split()
    with pytest.raises(SystemExit, match=f"{script}.py: cannot write {words[-1]}: "):
        script_main(script)(words)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.read_text() for path in files} == {"mine"}


def test_quickstart_deletes_no_file_that_a_flag_names(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    mine = tmp_path / "model/rows.csv"
    mine.write_text("mine")
    words = ["--output_dir", str(tmp_path), "--train_file", str(mine)]
    with pytest.raises(SystemExit, match="cannot read"):
        script_main("quickstart")(words)
    assert mine.read_text() == "mine"
