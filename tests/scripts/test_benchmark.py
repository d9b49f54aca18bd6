"""scripts/benchmark.py: it compares equals, counts right and keeps what it measured."""

import importlib.util
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from benchmarking import report, training
from benchmarking.ceilings import (
    ADAM_TRANSFERS,
    TRAINING_FACTOR,
    classifier_flops,
    encoder_flops,
)
from benchmarking.comparison import Comparison, describe
from benchmarking.memory import MemoryCase, measure, peak_mib
from benchmarking.passes import training_pass
from benchmarking.settings import OURS, PLAIN, Optimisers, Settings, build_model
from benchmarking.timing import MIN_ROUNDS, Budget, exponent, in_turn, speedup
from benchmarking.workloads import (
    WORKLOADS,
    batches_of,
    draw_texts,
    padding_factor,
    real_tokens,
)
from script_files import load_script
from tiny import SIZES, tiny_config

CPU = torch.device("cpu")
LENGTHS = [3, 7, 1, 5, 2]
NUMBERS = {name: size for name, size in SIZES.items() if not name.endswith("dropout")}
TINY = [
    "--quick",
    "--rounds=1",
    "--seconds=0.1",
    "--num_texts=3",
    "--lengths=4,8",
    "--fields=" + ",".join(f"{name}={size}" for name, size in NUMBERS.items()),
]


@pytest.fixture
def script() -> Iterator[ModuleType]:
    """The script as a module; importing it runs nothing."""
    module = load_script("benchmark")
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still; whoever takes time adds it."""
    now = [0.0]
    monkeypatch.setattr("benchmarking.timing.time.perf_counter", lambda: now[0])
    return now


def test_rates_and_shares_are_those_worked_out_by_hand() -> None:
    """Two rounds; 10 tokens; 600 operations; products of 2 * 10 ** 3 operations."""
    comparison = Comparison(
        batches={
            name: [{"attention_mask": torch.ones(2, 5), "input_ids": torch.ones(2, 10)}]
            for name in ("plain", "ours")
        },
        differences={"plain": 0.0, "ours": 1e-6},
    )
    times = {"plain": [2.0, 4.0], "ours": [1.0, 1.0], "product, fp32": [1.0, 2.0]}
    described = describe(comparison, (PLAIN, OURS), times, flops=600, product_size=10)
    ours = {name: value for name, value in described["ours"].items() if value is not None}
    assert ours["speedup"]["median"] == 3.0
    assert ours["tokens_per_second"]["median"] == 10.0
    assert ours["padding_factor"] == 2.0
    assert ours["share_of_ceiling"]["median"] == pytest.approx((600 / 2000 + 600 / 1000) / 2)
    assert described["plain"]["speedup"]["median"] == 1.0


def test_training_is_counted_as_three_forward_passes() -> None:
    """One product forward and two back; Adam moves seven numbers a weight."""
    assert (TRAINING_FACTOR, ADAM_TRANSFERS) == (3, 7)


def test_operations_are_counted_as_by_hand() -> None:
    """A share of the ceiling is worth what this count is worth."""
    sizes = {"embedding_size": 2, "lstm_hidden_size": 3, "attention_size": 4, "num_hops": 5}
    lstm, attention = 2 * 2 * 12 * (2 + 3), 2 * 4 * 6 + 2 * 5 * 4 + 2 * 5 * 6 + 2 * 5 * 5
    assert encoder_flops(tiny_config(**sizes)) == lstm + attention
    second_layer = 2 * 2 * 12 * (6 + 3)
    two_layers = tiny_config(**sizes, num_lstm_layers=2)
    assert encoder_flops(two_layers) == lstm + second_layer + attention
    mlp = tiny_config(**sizes, classifier_hidden_size=7, num_labels=2)
    assert classifier_flops(mlp) == 2 * 30 * 7 + 2 * 7 * 2
    pruned = tiny_config(**sizes, classifier="pruned_mlp", num_labels=2)
    rows, columns = 5 * (6 * 2), 6 * (5 * 3)
    assert classifier_flops(pruned) == 2 * rows + 2 * columns + 2 * (5 * 2 + 6 * 3) * 2


def test_ratios_are_taken_within_each_round() -> None:
    """What slows a round slows both; the ratio of two medians would mix rounds."""
    times = {"plain": [4.0, 9.0, 100.0], "ours": [2.0, 3.0, 10.0]}
    assert speedup(times, "plain", "ours") == {"q1": 2.5, "median": 3.0, "q3": 6.5}
    assert speedup(times, "ours", "ours") == {"q1": 1.0, "median": 1.0, "q3": 1.0}


def test_growth_is_the_slope_of_the_logarithms() -> None:
    """A cost that quadruples when the length doubles is quadratic, whatever its factor."""
    assert exponent([250, 500, 1000], [3.0, 12.0, 48.0]) == pytest.approx(2)
    assert exponent([250, 500, 1000], [7.0, 14.0, 28.0]) == pytest.approx(1)


def cases(clock: list[float], **seconds: float) -> tuple[list[str], dict[str, Callable[[], None]]]:
    """Return cases that move the clock by what they cost, and the list of who ran."""
    ran: list[str] = []

    def case(name: str) -> Callable[[], None]:
        def run() -> None:
            ran.append(name)
            # The first call of each is slow, as it is where memory has to be found.
            clock[0] += seconds[name] * (10 if ran.count(name) == 1 else 1)

        return run

    return ran, {name: case(name) for name in seconds}


def test_cases_run_in_turn_after_a_warm_up(clock: list[float]) -> None:
    """A machine that slows down half way slows all of them."""
    ran, both = cases(clock, a=1.0, b=2.0)
    times = in_turn(both, Budget(rounds=4, seconds=1000), CPU)
    assert ran == ["a", "b", *"ab", *"ba", *"ab", *"ba"], "each begins a round in turn"
    assert times == {"a": [1.0] * 4, "b": [2.0] * 4}


def test_short_calls_are_repeated_within_a_round(clock: list[float]) -> None:
    """A clock cannot time a microsecond."""
    ran, both = cases(clock, long=1.0, short=1 / 1024)
    times = in_turn(both, Budget(rounds=1, seconds=1000), CPU)
    assert ran == ["long", "short", "long", "short", "short", "short"]
    assert times == {"long": [1.0], "short": [1 / 1024]}


def test_a_comparison_ends_with_its_budget(clock: list[float]) -> None:
    """Not before quartiles mean something; what takes ages is not warmed up for nothing."""
    _, slow = cases(clock, a=1.0)
    assert in_turn(slow, Budget(rounds=9, seconds=11), CPU) == {"a": [1.0] * MIN_ROUNDS}
    ran, endless = cases(clock, a=1.0, b=1.0)
    times = in_turn(endless, Budget(rounds=9, seconds=11), CPU)
    assert times == {"a": [10.0, 1.0, 1.0], "b": [10.0, 1.0, 1.0]}
    assert ran == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.parametrize(
    ("name", "mean", "shortest", "longest"),
    [("tweets", 15, 1, 40), ("reviews", 120, 1, 500), ("documents", 2500, 1000, 4000)],
)
def test_texts_are_as_long_as_their_name_says(
    name: str, mean: float, shortest: int, longest: int
) -> None:
    """The gain over padding depends on how lengths spread."""
    lengths = WORKLOADS[name].draw(4000)
    assert lengths.float().mean().item() == pytest.approx(mean, rel=0.06)
    assert shortest <= lengths.min()
    assert lengths.max() <= longest
    assert lengths.float().std() > mean / 4


def test_grouping_changes_the_batches_and_not_the_texts() -> None:
    """Tokens per second of both must be about the same work."""
    texts = draw_texts(LENGTHS, 23, 4)
    as_they_come, grouped = (
        batches_of(texts, 2, grouped=grouped, device=CPU) for grouped in (False, True)
    )

    def read(batches: list[dict[str, torch.Tensor]]) -> list[tuple[list[int], int]]:
        rows = ((row, batch) for batch in batches for row in range(len(batch["labels"])))
        return sorted(
            (batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist(), label.item())
            for row, batch in rows
            for label in [batch["labels"][row]]
        )

    assert read(as_they_come) == read(grouped) == sorted((t.tolist(), label) for t, label in texts)
    assert real_tokens(as_they_come) == real_tokens(grouped) == sum(LENGTHS)
    assert padding_factor(as_they_come) == pytest.approx((14 + 10 + 2) / 18)
    assert padding_factor(grouped) == pytest.approx((14 + 6 + 1) / 18)


def test_sparse_gradients_touch_only_the_words_of_the_batch() -> None:
    """That is the whole saving, and a row that moves would show that it was not made."""
    settings = Settings("sparse", sparse_embeddings=True)
    model = build_model(settings, NUMBERS, CPU, seed=0)
    assert [type(part).__name__ for part in Optimisers(model, settings).parts] == [
        "Adam",
        "SparseAdam",
    ]
    words = model.encoder.embeddings.weight
    before = words.detach().clone()
    batches = batches_of([(torch.tensor([4, 9]), 1)], 1, grouped=False, device=CPU)
    training_pass(model, settings, batches)()
    assert (words != before).any(1).nonzero().flatten().tolist() == [4, 9]


def test_peak_memory_is_that_of_the_step_alone() -> None:
    """Gradients and two moments count, weights that were there before do not.

    In fresh processes: here, memory that another test has freed could be used again.
    """
    rows = 4_000_000
    mib = rows * NUMBERS["embedding_size"] * 4 / 2**20
    fields = {**NUMBERS, "vocab_size": rows}
    batches = batches_of(draw_texts(LENGTHS, 23, 4), 5, grouped=False, device=CPU)
    frozen = Settings("frozen", fields={"freeze_embeddings": True})
    fused = Settings("fused", plain=True, optimizer={"fused": True})
    trained, untrained = (
        peak_mib(MemoryCase(one, fields, batches, True, "cpu", 0, 1)) for one in (fused, frozen)
    )
    assert 3 * mib <= trained < 4 * mib
    assert untrained < mib


def test_memory_is_measured_in_another_process() -> None:
    """In this one, what earlier steps left behind would be used again."""
    batches = batches_of(draw_texts(LENGTHS, 23, 4), 5, grouped=False, device=CPU)
    assert 0 < peak_mib(MemoryCase(OURS, NUMBERS, batches, False, "cpu", 0, 1)) < 500


def test_a_run_prints_tables_and_keeps_a_record(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Figures without machine, versions and settings cannot be judged by anyone."""
    monkeypatch.setattr(training, "peak_mib", lambda case: measure(case) / 2**20 + 1)
    path = tmp_path / "record.json"
    script.main([*TINY, "--classifiers=mlp2000,pruned", "--record", str(path)])
    printed = capsys.readouterr().out
    text = path.read_text("utf-8")
    record = json.loads(text)
    assert tuple(record["benchmark"]) == tuple(sorted(script.PARTS))
    whole = record["benchmark"]["steps"][2]
    assert (whole["workload"], whole["classifier"], whole["rounds"]) == ("tweets", "pruned", 1)
    assert whole["settings"]["plain"]["speedup"]["median"] == 1
    assert whole["settings"]["ours"]["logit_difference"] < 1e-4
    assert record["settings"]["recommended"]["autocast"] is True
    assert record["exponents"].keys() == record["benchmark"]["lengths"][0]["settings"].keys()
    assert record["metrics"]["steps/tweets/pruned/64/ours"] > 0
    assert all(math.isfinite(value) for value in record["metrics"].values())
    assert {"hardware", "versions", "code", "seed", "config"} <= record.keys()
    assert str(tmp_path) not in text
    assert not re.search(r"/(root|home|tmp|Users)/", text)
    assert "times as fast" in printed
    assert "plain: time grows as length **" in printed


def test_a_table_has_a_column_for_what_was_measured() -> None:
    """Empty columns hide the full ones."""
    row = {"seconds": {"q1": 1, "median": 2, "q3": 3}, "peak_mib": None}
    title, head, line = report.table("steps", {"texts": 1234, "settings": {"ours": row}})
    assert title == "steps: texts 1,234"
    assert head.split() == ["seconds"]
    assert line.split() == ["ours", "2"]


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("--only=steps,speed", "'speed' is none of ceilings, steps, inference"),
        ("--rounds=0", "'0' must be a whole number, 1 or more"),
        ("--fields=units=3", "'units' is none of vocab_size, embedding_size"),
        ("--lengths=250,many", "'many' must be a whole number"),
    ],
)
def test_a_wrong_flag_is_answered_with_what_is_allowed(
    script: ModuleType, capsys: pytest.CaptureFixture[str], word: str, answer: str
) -> None:
    """A quarter of an hour later would be too late."""
    with pytest.raises(SystemExit, match="2"):
        script.main([word])
    assert answer in capsys.readouterr().err


def test_what_cannot_be_measured_is_refused_at_once(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU, nothing to draw or nothing to draw it with."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="torch sees no GPU; use --device cpu"):
        script.main(["--device=cuda"])
    with pytest.raises(SystemExit, match="measure it at two lengths or more"):
        script.main(["--plot=lengths.svg", "--only=steps"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"matplotlib, which is not installed; pip install"):
        script.main(["--plot=lengths.svg"])


def test_the_help_names_the_parts(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Who wants one figure need not wait for all."""
    with pytest.raises(SystemExit, match="0"):
        script.main(["--help"])
    printed = capsys.readouterr().out
    assert all(part in printed for part in script.PARTS)


LENGTHS_RESULTS = [
    {
        "longest": longest,
        "settings": {"ours": {"seconds": {"median": longest / 100}, "peak_mib": longest / 2}},
    }
    for longest in (250, 500)
]


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    """The kind is that of its ending."""
    pytest.importorskip("matplotlib", reason="the plot is an extra")
    path = tmp_path / "new" / "lengths.svg"
    report.plot(LENGTHS_RESULTS, path)
    assert "<svg" in path.read_text("utf-8")


def test_a_plot_without_matplotlib_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install stays small."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sase_hf\[viz\]'"):
        report.plot(LENGTHS_RESULTS, tmp_path / "lengths.svg")
