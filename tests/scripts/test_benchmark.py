"""scripts/benchmark.py: fair comparisons, correct rates, complete records."""

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from benchmarking import report
from benchmarking.cases import cost_of_length
from benchmarking.corpora import corpora, cost_of_command
from benchmarking.epoch import epoch
from benchmarking.lstm import lstm, read_blocks
from benchmarking.models import (
    OURS,
    PLAIN,
    RECOMMENDED,
    build_model,
    logit_difference,
    sample_batch,
)
from benchmarking.passes import peak_mib, seconds_of_training, training_process
from benchmarking.plain import plain_name, plain_twin
from benchmarking.ranking import ranking
from benchmarking.start import BARE, seconds_of_command, start
from benchmarking.texts import batches_of, draw_texts
from benchmarking.timing import MIN_ROUNDS, describe, in_turn, model_flops
from script_files import load_script
from tiny import PAPER, SIZES, tiny_config, tiny_model
from torch import nn

from sase_hf import SelfAttentiveForSequenceClassification

LENGTHS = [3, 7, 1, 5, 2]
NUMBERS = {name: size for name, size in SIZES.items() if not name.endswith("dropout")}


@pytest.fixture
def script() -> Iterator[ModuleType]:
    module = load_script("benchmark")
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)


def ours_and_plain(**fields: object) -> tuple[SelfAttentiveForSequenceClassification, nn.Module]:
    """Return a tiny model with the paper's attention and random weights, and its plain twin."""
    model = tiny_model(SelfAttentiveForSequenceClassification, num_labels=4, **PAPER, **fields)
    return model, plain_twin(model)


@pytest.mark.parametrize("classifier", ["mlp", "pruned_mlp"])
def test_plain_twin_computes_the_same_loss_logits_and_gradients(classifier: str) -> None:
    ours, plain = ours_and_plain(classifier=classifier)
    (batch,) = batches_of(draw_texts(LENGTHS, 23, 4), 5)
    expected, actual = ours(**batch), plain(**batch)
    torch.testing.assert_close(actual.logits, expected.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(actual.loss, expected.loss)
    expected.loss.backward()
    actual.loss.backward()
    gradients = {name: weight.grad for name, weight in plain.named_parameters()}
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(gradients[plain_name(name)], weight.grad, rtol=1e-4, atol=1e-5)


def halve_gradient(encoder: Any) -> None:
    """Keep the outputs, but halve the gradient of the word vectors, which is faster to compute."""
    forward = encoder.lstm.forward
    encoder.lstm.forward = lambda packed: forward(
        packed._replace(data=packed.data * 0.5 + packed.data.detach() * 0.5)
    )


def test_logit_difference_refuses_a_model_with_other_gradients() -> None:
    """A model that computes less would look faster."""
    fields = {**NUMBERS, "embedding_dropout": 0.0, "classifier_dropout": 0.0}
    ours, plain = (build_model(settings, fields) for settings in (OURS, PLAIN))
    assert logit_difference(plain, PLAIN, ours, sample_batch(23, 5)) < 1e-5
    halve_gradient(plain.encoder)
    with pytest.raises(RuntimeError, match=r"gradients of encoder\.embeddings\.weight differ"):
        logit_difference(plain, PLAIN, ours, sample_batch(23, 5))


@pytest.mark.slow
def test_training_process_measures_the_memory_of_gradients_and_moments() -> None:
    """Weights that were there before do not count; a frozen embedding has neither."""
    rows = 4_000_000
    mib = rows * NUMBERS["embedding_size"] * 4 / 2**20
    batches = batches_of(draw_texts(LENGTHS, 23, 4), 5)
    flags = Namespace(device="cpu", seed=0, threads=1)
    peaks = []
    for frozen in (False, True):
        fields = {**NUMBERS, "vocab_size": rows, "freeze_embeddings": frozen}
        with training_process(RECOMMENDED, fields, batches, flags, True) as process:
            assert process.submit(seconds_of_training, 1).result() > 0
            peaks.append(process.submit(peak_mib).result())
    assert 3 * mib <= peaks[0] < 4 * mib
    assert peaks[1] < mib


def test_describe_computes_rates_and_shares_worked_out_by_hand() -> None:
    """Two rounds; 10 tokens; 600 operations; products of 2 * 10 ** 3 operations."""
    texts = draw_texts([4, 6], 23, 4)
    times = {"plain": [2.0, 8.0], "ours": [1.0, 2.0], "product, fp32": [1.0, 4.0]}
    result = describe((PLAIN, OURS), times, texts, flops=600, product_size=10)
    ours = result["settings"]["ours"]
    assert ours["speedup"] == {"q1": 2.5, "median": 3.0, "q3": 3.5}, "ratios within each round"
    assert ours["tokens_per_second"]["median"] == 7.5
    assert ours["share_of_ceiling"]["median"] == pytest.approx((600 / 2000 + 600 / 1000) / 2)
    assert result["settings"]["plain"]["speedup"]["median"] == 1.0


def test_model_flops_are_those_counted_by_hand() -> None:
    sizes = {"embedding_size": 2, "lstm_hidden_size": 3, "attention_size": 4, "num_hops": 5}

    def flops(texts: int = 0, **fields: Any) -> int:
        return model_flops(tiny_config(**sizes, **fields), 1, texts, classifier=texts > 0)

    token = 2 * 2 * 12 * (2 + 3) + 2 * 4 * 6 + 2 * 5 * 4 + 2 * 5 * 6 + 2 * 5 * 5
    assert flops() == token
    mlp = flops(2, classifier_hidden_size=7, num_labels=2)
    assert mlp == token + 2 * (2 * 30 * 7 + 2 * 7 * 2)
    rows, columns = 5 * (6 * 2), 6 * (5 * 3)
    pruned = flops(1, classifier="pruned_mlp", num_labels=2)
    assert pruned == token + 2 * rows + 2 * columns + 2 * (5 * 2 + 6 * 3) * 2


def run_in_turn(
    monkeypatch: pytest.MonkeyPatch, rounds: int, seconds: float, **costs: float
) -> tuple[str, dict[str, list[float]]]:
    """Return which cases ran, by letters, and their times, on a clock that only they move."""
    now, ran = 0.0, ""
    monkeypatch.setattr("benchmarking.timing.time.perf_counter", lambda: now)

    def run(name: str, repeats: int) -> float:
        nonlocal now, ran
        taken = costs[name] * (1 if name in ran else 10)  # the first call is slow
        ran += name * repeats
        now += taken * repeats
        return taken

    cases = {name: lambda repeats, name=name: run(name, repeats) for name in costs}
    times = in_turn(cases, rounds, seconds)
    return ran, times


def test_in_turn_alternates_until_its_rounds_or_seconds_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It measures at least MIN_ROUNDS rounds, so that quartiles mean something."""
    ran, times = run_in_turn(monkeypatch, 4, 1000, a=1.0, b=2.0)
    assert ran == "ab" + "ab" + "ba" + "ab" + "ba", "each begins a round in turn"
    assert times == {"a": [1.0] * 4, "b": [2.0] * 4}
    ran, times = run_in_turn(monkeypatch, 1, 1000, a=1.0, b=1 / 1024)
    assert ran == "ab" + "abbb", "short calls are repeated"
    assert times == {"a": [1.0], "b": [1 / 1024]}
    assert run_in_turn(monkeypatch, 9, 11, a=1.0)[1] == {"a": [1.0] * MIN_ROUNDS}


@pytest.mark.slow
def test_benchmark_prints_tables_and_writes_a_record(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses ONNX files in float32 with other logits itself."""
    path = tmp_path / "record.json"
    words = ["--quick", "--rounds=1", "--seconds=0.1", "--num_texts=3", f"--record={path}"]
    words += ["--models", "pruned", f"--fields={json.dumps(NUMBERS)}"]
    script.main([*words, "--only", "training", "inference", "embedding"])
    assert "times as fast" in capsys.readouterr().out
    text = path.read_text("utf-8")
    record = json.loads(text)
    assert set(record["benchmark"]) == {"training", "inference", "embedding"}
    whole = record["benchmark"]["training"][1]
    assert (whole["workload"], whole["model"], whole["rounds"]) == ("tweets", "pruned", 1)
    assert whole["settings"]["plain"]["speedup"]["median"] == 1
    assert whole["settings"]["ours"]["logit_difference"] < 1e-4
    assert "logit_difference" not in whole["settings"]["recommended, default attention"]
    inference = record["benchmark"]["inference"][1]["settings"]
    for name, limit in {"ONNX Runtime": 1e-5, "ONNX Runtime, int8": 0.1}.items():
        assert name not in inference or inference[name]["logit_difference"] < limit
    assert {"hardware", "versions", "code", "seed", "config"} <= record.keys()
    assert not re.search(r"/(root|home|tmp|Users)/", text)


def test_seconds_of_command_are_those_of_the_processor_and_not_of_the_clock() -> None:
    work = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(1)"
    assert 0.49 <= seconds_of_command(["-c", work], 1) < 1
    with pytest.raises(RuntimeError, match="failed: no such model"):
        seconds_of_command(["-c", "raise SystemExit('no such model')"], 1)


def test_start_compares_with_what_every_model_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "benchmarking.start.seconds_of_command", lambda words, _: 6.0 if "--help" in words else 3.0
    )
    (result,) = start(Namespace(rounds=1, seconds=60.0))
    rows = result["settings"]
    assert rows[BARE]["times_bare"]["median"] == 1
    assert rows["train.py --help"]["times_bare"]["median"] == 2


def test_ranking_measures_the_time_of_a_query() -> None:
    sizes = {"num_hops": 2, "lstm_hidden_size": 4}
    flags = Namespace(fields=sizes, num_texts=300, seed=0, rounds=MIN_ROUNDS, seconds=1.0)
    [result] = ranking(flags)
    assert (result["documents"], result["rows"], result["width"]) == (300, 2, 8)
    names = [f"{mode}, {count} at once" for mode in ("rows", "flat") for count in (1, 64)]
    assert sorted(result["settings"]) == sorted(names)
    assert all(row["seconds"]["median"] > 0 for row in result["settings"].values())


@pytest.mark.slow
def test_corpora_measures_whole_commands() -> None:
    [result] = corpora(Namespace(rows=[64], seed=0, threads=1, fields={}))
    assert result["rows"] == 64
    for row in result["settings"].values():
        assert row["peak_mib"] > 100, "torch alone"
        assert row["rows_per_second"]["median"] == 64 / row["seconds"]["median"]
    with pytest.raises(RuntimeError, match="failed: no such model"):
        cost_of_command(["-c", "raise SystemExit('no such model')"], 64, 1)


@pytest.mark.slow
def test_epoch_is_one_of_all_pairs() -> None:
    flags = Namespace(pairs=40, seed=0, threads=1, device="cpu", fields={"lstm_hidden_size": 4})
    [result] = epoch(flags)
    row = result["settings"]["train.py"]
    assert (result["processes"], result["batch_size"]) == (1, 10)
    assert row["rows_per_second"]["median"] == 40 / row["seconds"]["median"]
    assert row["seconds"]["median"] < row["processor_seconds"], "the imports are not the epoch's"


def test_lstm_compares_ways_to_read_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is timed only if it computes the states of the others."""
    monkeypatch.setattr("benchmarking.lstm.BATCH_SIZES", (3,))
    fields = {"embedding_size": 4, "lstm_hidden_size": 3}
    sizes = {"max_batches": 1, "product_size": 8, "rounds": MIN_ROUNDS, "seconds": 0.1}
    flags = Namespace(workloads=["tweets"], device="cpu", seed=0, fields=fields, **sizes)
    results = list(lstm(flags))
    assert [(r["grouped"], r["precision"]) for r in results] == [
        (grouped, precision) for grouped in (False, True) for precision in ("fp32", "bf16")
    ]
    assert set(results[0]["settings"]) == {"nn.LSTM, packed", "nn.LSTM, dense", "ours"}
    assert results[0]["settings"]["nn.LSTM, packed"]["speedup"]["median"] == 1
    read = "benchmarking.lstm.read_blocks"
    monkeypatch.setattr(read, lambda *given: read_blocks(*given) * 1.01)
    with pytest.raises(RuntimeError, match="computes other states"):
        list(lstm(flags))


def test_cost_of_length_compares_with_the_plain_model_only_where_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(*given: Any) -> dict[str, Any]:
        row = {"seconds": {"median": 1.0}, "speedup": {"median": 1.0}, "logit_difference": 0.0}
        return {"settings": {one.name: dict(row) for one in given[1]}}

    monkeypatch.setattr("benchmarking.cases._compare_training", measured)
    flags = Namespace(lengths=[4000, 4001], seed=0, fields={})
    within, beyond = (result["settings"] for result in cost_of_length(flags))
    assert all("speedup" in row for row in within.values())
    assert "plain" not in beyond
    assert beyond["ours"] == {"seconds": {"median": 1.0}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device=cuda"], "torch sees no GPU; use --device cpu"),
        (["--plot=lengths.svg", "--only", "training"], "shows one part, lengths or corpora"),
        (["--plot=c.svg", "--only", "corpora", "--rows", "9"], "two --lengths or --rows at least"),
        (["--record=."], "is a folder"),
    ],
)
def test_benchmark_refuses_what_it_cannot_measure_before_it_begins(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=message):
        script.main(words)


def test_exponents_and_plot_show_the_cost_against_length(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot is an extra")
    results = [
        {"longest": n, "settings": {"ours": {"seconds": {"median": n / 100}, "peak_mib": n * n}}}
        for n in (250, 500, 1000)
    ]
    results[0]["settings"]["plain"] = results[0]["settings"]["ours"]
    growth = report.exponents({"lengths": results})
    assert growth == {"ours": {"seconds": pytest.approx(1), "peak_mib": pytest.approx(2)}}
    path = tmp_path / "new" / "lengths.svg"
    report.plot({"lengths": results}, path)
    assert "<svg" in path.read_text("utf-8")
