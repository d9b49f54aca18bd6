"""The first command of a new user: it works twice, and deletes no other files."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from script_files import SCRIPTS, load_command

from sase_hf.data.arguments import SPLITS

# The way it takes is that of `make quickstart`; the model is too small to learn anything on it.
TINY = (  # noqa: SIM905
    "--max_train_samples=60 --max_eval_samples=60 --max_predict_samples=60 --use_cpu "
    "--disable_tqdm=True --max_steps=2 --embedding_size=6 --lstm_hidden_size=4 --attention_size=5 "
    "--num_hops=2 --classifier_hidden_size=7"
).split()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go into a folder, and return that of a new quickstart in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "quickstart"


def write_earlier(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("made before", encoding="utf-8")


def names_of_corpus(task: str) -> list[str]:
    return [f"corpus/{task}.{split}.jsonl" for split in SPLITS]


@pytest.mark.slow
def test_quickstart_prints_accuracies_an_example_and_a_page_of_test_rows(folder: Path) -> None:
    """The page must show held-out text, mistakes included, and no mixture of two runs."""
    write_earlier(folder, [*names_of_corpus("reviews"), "model/old.txt"])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPTS / "quickstart.py"), *TINY],
        env={"PYTHONPATH": str(SCRIPTS.parent), "HOME": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert_told_and_written(done.stdout, folder, "reviews", "20.0")


@pytest.mark.slow
def test_quickstart_of_pairs_prints_and_writes_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_earlier(folder, [*names_of_corpus("pairs"), "model/old.txt", "attention.html"])
    load_command("quickstart").main(["--task", "pairs", *TINY])
    assert_told_and_written(capsys.readouterr().out, folder, "pairs", "33.3")


def assert_told_and_written(output: str, folder: Path, task: str, most_frequent: str) -> None:
    baselines = re.search(r"label +(\S+)%.*\nlinear model +(\S+)%(?:.*\n)+?this model +\d", output)
    assert baselines, output
    assert baselines[1] == most_frequent
    assert 0 < float(baselines[2]) < 100
    assert re.search(r'"[A-Z].*\."\n  .+ [\d.]+%, true label .+\n  (why|reads|\(hops) ', output)
    report, export, own = output.splitlines()[-3:]
    assert report == f"open {(folder / 'attention.html').resolve().as_uri()}"
    assert export.endswith(" export runs/quickstart/model runs/quickstart.html")
    assert own.endswith(" train --train_file YOUR_FILE.csv")
    assert (folder / "model" / "modeling_self_attentive.py").exists()
    assert not (folder / "model" / "old.txt").exists()
    rows = (folder / "corpus" / f"{task}.test.jsonl").read_text("utf-8").splitlines()[:10]
    page = (folder / "attention.html").read_text("utf-8")
    labels = re.findall(r"the true label is <bdi>([^<]+)</bdi>", page)
    assert labels == [json.loads(row)["label"] for row in rows]


@pytest.mark.parametrize(
    "names",
    [
        [*names_of_corpus("reviews"), "corpus/mine.csv"],
        [*names_of_corpus("reviews"), "thesis.txt"],
        [*names_of_corpus("pairs")],
        ["model/config.json"],
    ],
)
def test_quickstart_deletes_no_other_files(folder: Path, names: list[str]) -> None:
    """A mistyped folder must cost nothing, even one with a corpus in it."""
    write_earlier(folder, names)
    with pytest.raises(SystemExit, match=r"quickstart.py: --output_dir .* holds other files"):
        load_command("quickstart").main([])
    assert all((folder / name).is_file() for name in names)
