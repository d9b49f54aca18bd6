"""The first command of a new user: it works twice, and deletes no other files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from script_files import load_script

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "quickstart.py"
NUM_ROWS = 60
# The way it takes is that of `make quickstart`; the model is too small to learn anything on it.
TINY = (
    f"--max_train_samples={NUM_ROWS} --max_eval_samples={NUM_ROWS} "
    f"--max_predict_samples={NUM_ROWS} --use_cpu --disable_tqdm=True --max_steps=2 "
    "--embedding_size=6 --lstm_hidden_size=4 --attention_size=5 --num_hops=2 "
    "--classifier_hidden_size=7"
)


@pytest.fixture(scope="module", params=["reviews", "pairs"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("quickstart")
    for left in ("corpus/README.md", "model/old.txt"):
        path = folder / "runs" / "quickstart" / left
        path.parent.mkdir(parents=True)
        path.write_text("made by synthetic", encoding="utf-8")
    words = [sys.executable, "-W", "error", str(SCRIPT), "--task", request.param, *TINY.split()]
    done = subprocess.run(
        words,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, folder


@pytest.mark.slow
def test_quickstart_prints_accuracies_an_example_and_paths(run: tuple[str, Path]) -> None:
    """A reader sees at once whether it worked and where to look next."""
    output, folder = run
    baselines = re.search(r"label +(0\.\d+)\n  bag of words +(0\.\d+)\n  this model +\d", output)
    assert baselines, output
    majority, bag_of_words = map(float, baselines.groups())
    assert majority in (0.2, 0.333)
    assert 0 < bag_of_words < 1
    assert re.search(r'"[A-Z].*\."\n  most attended: (\S+ \d+%,|\(reads all words)', output)
    assert re.search(r"  predicted: .+ \(\d+%\); true: ", output)
    for name, path in re.findall(r"^(checkpoint|heatmap)  +(\S+)$", output, flags=re.MULTILINE):
        assert not Path(path).is_absolute()
        assert (folder / path).exists(), f"there is no {name}"
    model = folder / "runs" / "quickstart" / "model"
    assert (model / "modeling_self_attentive.py").exists()
    assert not (model / "old.txt").exists(), "a mixture of two runs"


@pytest.mark.slow
def test_quickstart_page_shows_test_rows_with_true_labels(run: tuple[str, Path]) -> None:
    """The page must show held-out text, mistakes included."""
    folder = run[1] / "runs" / "quickstart"
    page = (folder / "attention.html").read_text("utf-8")
    name = "pairs" if "contradiction" in page else "reviews"
    rows = (folder / "corpus" / f"{name}.test.jsonl").read_text("utf-8").splitlines()
    labels = re.findall(r"the true label is <bdi>([^<]+)</bdi>", page)
    assert labels == [json.loads(row)["label"] for row in rows[: len(labels)]]
    assert len(labels) == 10


@pytest.mark.parametrize("place", ["corpus/README.md", "thesis.txt"])
def test_quickstart_deletes_no_other_files(tmp_path: Path, place: str) -> None:
    """A mistyped folder must cost nothing, even one with a corpus in it."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/README.md").write_text("synthetic", encoding="utf-8")
    (tmp_path / place).write_text("four years", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"quickstart.py: --output_dir .* holds other files"):
        load_script("quickstart").main(["--output_dir", str(tmp_path)])
    assert (tmp_path / place).read_text("utf-8") == "four years"
