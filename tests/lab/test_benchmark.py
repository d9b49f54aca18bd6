"""scripts/lab/benchmark.py: fair comparisons, correct rates, complete records."""

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from bench import models, parts
from bench.models import OURS, PLAIN, RECOMMENDED, build_model, check_same_results
from bench.texts import draw_texts
from bench.timing import MIN_ROUNDS, compare, in_turn, speedup
from script_files import load_script
from tiny import SIZES

LENGTHS = [3, 7, 1, 5, 2]
NUMBERS = {name: size for name, size in SIZES.items() if not name.endswith("dropout")}
FLAGS = Namespace(device="cpu", seed=0, threads=1, fields=NUMBERS, rounds=1, seconds=0.1)


@pytest.fixture
def script() -> Iterator[ModuleType]:
    threads = torch.get_num_threads()
    yield load_script("lab/benchmark")
    torch.set_num_threads(threads)


def test_check_same_results_refuses_other_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that computes less would look faster, also if its logits are right."""
    fields = models.PAPER | NUMBERS
    monkeypatch.setattr(models, "TOLERANCE", 1e-5)  # rounding of small models
    check_same_results((PLAIN, OURS, *models.TRAINING, *models.INFERENCE), fields, FLAGS)

    def build_cheaper(settings: models.Settings, *given: Any) -> Any:
        model: Any = build_model(settings, *given)
        if settings is OURS:  # the outputs stay
            weight = model.encoder.embeddings.weight
            weight.register_hook(lambda gradient: gradient / 2)
        return model

    monkeypatch.setattr(models, "build_model", build_cheaper)
    with pytest.raises(RuntimeError, match=r"ours: gradients of encoder\.embeddings\.weight dif"):
        check_same_results((PLAIN, OURS), fields, FLAGS)


@pytest.mark.slow
def test_compare_measures_the_memory_of_gradients_and_moments() -> None:
    """Weights that were there before do not count; a frozen embedding has neither."""
    rows = 4_000_000
    mib = rows * NUMBERS["embedding_size"] * 4 / 2**20
    peaks = []
    for frozen in (False, True):
        sizes = {"vocab_size": rows, "freeze_embeddings": frozen, "embedding_dropout": 0.0}
        fields = models.PAPER | NUMBERS | sizes
        result = compare(FLAGS, (RECOMMENDED,), fields, draw_texts(LENGTHS, 23, 4), 5, "step")
        peaks.append(result["settings"]["recommended"]["peak_mib"])
    assert 3 * mib <= peaks[0] < 4 * mib
    assert peaks[1] < mib


def test_in_turn_alternates_until_rounds_or_seconds_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures at least MIN_ROUNDS rounds, so that quartiles mean something."""
    now, ran = 0.0, ""
    monkeypatch.setattr("bench.timing.time.perf_counter", lambda: now)

    def run(name: str, cost: float, repeats: int) -> float:
        nonlocal now, ran
        cost *= 1 if name in ran else 10  # the first call is slow
        ran += name * repeats
        now += cost * repeats
        return cost

    ratios = speedup({"plain": [2.0, 8.0], "ours": [1.0, 2.0]}, "plain", "ours")
    assert ratios == {"q1": 2.5, "median": 3.0, "q3": 3.5}, "within each round"
    times = in_turn({"a": partial(run, "a", 1.0), "b": partial(run, "b", 2.0)}, 4, 1000)
    assert ran == "ab" + "ab" + "ba" + "ab" + "ba", "each begins a round in turn"
    assert times == {"a": [1.0] * 4, "b": [2.0] * 4}
    times, ran = in_turn({"a": partial(run, "c", 1 / 1024)}, 1, 1000), ran[10:]
    assert (ran, times) == ("c" + "ccc", {"a": [1 / 1024]}), "short calls are repeated"
    assert in_turn({"a": partial(run, "a", 1.0)}, 9, 11)["a"] == [1.0] * MIN_ROUNDS


@pytest.mark.slow
def test_benchmark_prints_tables_and_writes_the_record(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    words = ["--quick", "--rounds=1", "--seconds=0.1", "--num_texts=3", f"--record={path}"]
    words += ["--models", "pruned", f"--fields={json.dumps(NUMBERS)}"]
    script.main([*words, "--only", "training", "lengths", "inference", "embedding", "why"])
    assert "speedup 1 (1 to 1)" in capsys.readouterr().out
    record = json.loads(path.read_text("utf-8"))
    parts_of_record = {"training", "lengths", "inference", "embedding", "why"}
    assert set(record["benchmark"]) == parts_of_record
    whole = record["benchmark"]["training"][1]
    assert (whole["workload"], whole["model"], whole["rounds"]) == ("tweets", "pruned", 1)
    assert whole["settings"]["plain"]["speedup"]["median"] == 1
    assert record["exponents"].keys() == {way.name for way in models.LENGTHS}
    assert {"hardware", "versions", "code", "seed", "arguments"} <= record.keys()
    assert not re.search(r"/(root|home|tmp|Users)/", path.read_text("utf-8"))


def test_seconds_of_command_are_those_of_the_processor_and_not_of_the_clock() -> None:
    work = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(1)"
    assert 0.45 <= parts.seconds_of_command(["-c", work], 1) < 1
    with pytest.raises(RuntimeError, match="failed: no such model"):
        parts.seconds_of_command(["-c", "raise SystemExit('no such model')"], 1)


def test_starts_are_compared_with_the_import_of_any_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands cost what this test says."""
    run_words: list[list[str]] = []

    def seconds(words: list[str], repeats: int) -> float:
        run_words.append(words)
        return 6.0 if "--help" in words else 3.0

    monkeypatch.setattr(parts, "seconds_of_command", seconds)
    [result] = parts.start(FLAGS)
    assert result["settings"][parts.BARE]["times_bare"]["median"] == 1
    assert result["settings"]["train.py --help"]["times_bare"]["median"] == 2
    assert ["-m", "sase_hf", "--help"] in run_words


@pytest.mark.slow
def test_commands_on_a_file_run_and_are_compared_with_the_import_of_any_model() -> None:
    [result] = parts.commands(Namespace(rows=40, **vars(FLAGS)))
    assert result["settings"].keys() == {parts.BARE, "embed.py", "train.py"}
    assert result["settings"][parts.BARE]["times_bare"]["median"] == 1


def test_benchmark_refuses_a_record_that_it_cannot_write_before_it_begins(
    script: ModuleType,
) -> None:
    with pytest.raises(SystemExit, match="is a folder"):
        script.main(["--record=."])


def test_exponents_are_slopes_of_logarithms(script: ModuleType) -> None:
    results = [
        {"longest": n, "settings": {"ours": {"seconds": {"median": n / 100}, "peak_mib": n * n}}}
        for n in (250, 500, 1000)
    ]
    results[0]["settings"]["plain"] = results[0]["settings"]["ours"]  # one length has no slope
    growth = script.exponents({"lengths": results})
    assert growth == {"ours": {"seconds": pytest.approx(1), "peak_mib": pytest.approx(2)}}
