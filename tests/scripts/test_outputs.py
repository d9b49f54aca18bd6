"""No script replaces a file that it reads."""

from pathlib import Path

import pytest
from checkpoints import assert_refuses_an_output_that_it_reads, script_main

from sase_hf.commands.synthetic import write_corpus


@pytest.mark.parametrize(
    "command",
    [
        "visualize runs/a --file page.html --output page.html",
        "visualize runs/a --compare runs/b --text x --output runs/b/heatmap.svg",
        "rank runs/a --queries rows.jsonl --documents emb --output rows.jsonl",
        "rank runs/a --queries rows.csv --documents emb --translate_with t.html --output t.html",
        "export page.html page.html",
    ],
)
def test_script_refuses_an_output_that_it_reads(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refuses_an_output_that_it_reads(command, tmp_path)


def test_write_corpus_replaces_only_a_corpus(tmp_path: Path) -> None:
    sizes = {"train": 10}
    write_corpus(tmp_path / "corpus", 0, sizes, sizes)
    write_corpus(tmp_path / "corpus", 1, sizes, sizes)
    (tmp_path / "README.md").write_text("# My project, with a synthetic corpus")
    with pytest.raises(FileExistsError, match=r"README\.md is not of a synthetic corpus"):
        write_corpus(tmp_path, 0, sizes, sizes)
    assert len(list(tmp_path.iterdir())) == 2


def test_quickstart_deletes_no_file_that_a_flag_names(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/README.md").write_text("# Synthetic corpus")
    mine = tmp_path / "model/rows.csv"
    mine.write_text("mine")
    words = ["--output_dir", str(tmp_path), "--train_file", str(mine)]
    with pytest.raises(SystemExit, match=r"--train_file .*rows\.csv is in .*; name another --out"):
        script_main("quickstart")(words)
    assert mine.read_text() == "mine"
