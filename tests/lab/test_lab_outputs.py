"""No command of the laboratory replaces a file that it reads."""

from pathlib import Path

import pytest
from checkpoints import assert_refuses_an_output_that_it_reads


@pytest.mark.parametrize(
    "command",
    [
        "lab/measure attention runs/a runs/b --file rows.csv --record rows.csv",
        "lab/measure attention runs/a --file rows.csv --word_list words.svg --plot words.svg",
        "lab/measure faithfulness runs/a --file rows.csv --record new.svg --plot new.svg",
        "lab/measure agreement runs/a --file rows.csv --record runs/a/config.json",
        "lab/nearest_neighbours runs/a --file rows.csv --record rows.csv",
        "lab/nearest_neighbours runs/a --file rows.csv --record new.svg --plot new.svg",
        "lab/retrieval_pairs rows.jsonl rows.jsonl",
    ],
)
def test_script_refuses_an_output_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refuses_an_output_that_it_reads(command, tmp_path)
