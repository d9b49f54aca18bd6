"""Files of a run are looked at before torch is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from sase_hf.commands.train import check_files

LOOK = """
import sys
from sase_hf.commands.train import main
try:
    main(sys.argv[1:])
finally:
    print("torch" in sys.modules, "transformers" in sys.modules)
"""


@pytest.mark.slow
def test_command_names_a_fault_of_a_file_before_torch_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\na,b,c\n")
    words = [sys.executable, "-c", LOOK, "--train_file", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "False"]
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "rows.csv" in done.stderr


def test_check_files_names_the_faults_of_all_files(tmp_path: Path) -> None:
    files = [tmp_path / "rows.csv", tmp_path / "dev.csv"]
    for file in files:
        file.write_text("text,label\na,b,c\n")
    words = ["--train_file", str(files[0]), "--validation_file", str(files[1])]
    with pytest.raises(ValueError, match=r"cannot read") as fault:
        check_files(words)
    assert all(str(file) in str(fault.value) for file in files)


def test_check_files_leaves_what_it_does_not_know_to_the_run(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\na,x\nb,y\n")
    assert check_files(["--train_file", str(rows), "--learning_rate", "x"]) == "labels"
    words = ["--task", "translation", "--train_file", str(rows), "--text_column_names=text,label"]
    assert check_files(words) == "translation"
    rows.write_text("text,label\na,x\n")
    of_more = ["--train_file", str(rows), "--model_name_or_path", "of-more-labels"]
    assert check_files(of_more) == "labels"
