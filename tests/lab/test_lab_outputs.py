"""No command of the laboratory replaces a file that it reads."""

from pathlib import Path

import pytest
from checkpoints import script_main


@pytest.mark.parametrize(
    "command",
    [
        "measure attention runs/a runs/b --file rows.csv --record rows.csv",
        "measure attention runs/a --file rows.csv --word_list words.svg --plot words.svg",
        "measure faithfulness runs/a --file rows.csv --record new.svg --plot new.svg",
        "measure agreement runs/a --file rows.csv --record runs/a/config.json",
        "nearest_neighbours runs/a --file rows.csv --record rows.csv",
        "nearest_neighbours runs/a --file rows.csv --record new.svg --plot new.svg",
        "retrieval_pairs rows.jsonl rows.jsonl",
    ],
)
def test_script_refuses_an_output_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it loads anything: none of these files is what the script could read."""
    monkeypatch.chdir(tmp_path)
    for name in ("rows.csv", "rows.jsonl", "page.html", "words.svg", "t.html"):
        Path(name).write_text("mine")
    for folder in ("runs/a", "runs/b"):
        Path(folder).mkdir(parents=True)
        Path(folder, "config.json").write_text("mine")
    name, *words = command.split()
    with pytest.raises(SystemExit, match=f"{name}.py: cannot write {words[-1]}: "):
        script_main(f"lab/{name}")(words)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.read_text() for path in files} == {"mine"}
