"""Cases of the benchmark in processes of their own: memory apart, failures reported, ONNX equal."""

import os
from pathlib import Path

import pytest
import torch
from benchmarking.passes import logit_difference, logits_of
from benchmarking.processes import OwnProcess, can_fork
from benchmarking.settings import OURS, Settings, build_model
from benchmarking.workloads import batches_of, draw_texts
from tiny import SIZES

from sase_hf.utils.processes import in_fresh_process

CPU = torch.device("cpu")

in_a_copy = pytest.mark.skipif(not can_fork(CPU), reason="needs glibc and one thread")


@in_a_copy
def test_calls_of_a_case_share_a_process_that_is_not_this_one(tmp_path: Path) -> None:
    """What one call leaves in memory the next one finds, and nobody else does."""
    calls: list[int] = []

    def case() -> None:
        calls.append(os.getpid())
        (tmp_path / f"call{len(calls)}").write_text(str(calls[-1]), "utf-8")

    alone = OwnProcess(case, keeps_memory=True)
    for _ in range(3):
        alone()
    assert calls == [], "not in this process"
    pids = {path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
    assert len(pids) == 1
    assert pids != {str(os.getpid())}


@in_a_copy
def test_a_case_that_fails_in_its_process_fails_here() -> None:
    """Its time would be that of nothing."""

    def case() -> None:
        raise ValueError("no such text")

    with pytest.raises(RuntimeError, match="ValueError: no such text"):
        OwnProcess(case, keeps_memory=False)()


@in_a_copy
def test_a_case_whose_process_dies_says_so() -> None:
    """The system kills what wants too much memory, without a word."""
    with pytest.raises(RuntimeError, match="its process died; was there memory enough"):
        OwnProcess(lambda: os._exit(9), keeps_memory=False)()


def test_neither_a_gpu_nor_threads_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both stop working in a copy; the case then runs in this process."""
    assert not can_fork(torch.device("cuda"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert not can_fork(CPU)


def test_onnx_runtime_computes_the_same_logits_at_any_length() -> None:
    """In float32 up to rounding, with int8 weights nearly, for sizes the export did not see."""
    sizes = {name: size for name, size in SIZES.items() if name != "classifier_dropout"}
    ours = build_model(OURS, sizes, CPU, seed=3)
    for precision, limit in (("fp32", 1e-5), ("int8", 0.1)):
        settings = Settings("onnx", onnx=precision)
        model = build_model(settings, sizes, CPU, seed=3)
        for lengths in ([3, 7, 1], [30]):
            texts = draw_texts(torch.tensor(lengths), SIZES["vocab_size"], 5)
            (batch,) = batches_of(texts, len(lengths), grouped=False, device=CPU)
            assert logit_difference(model, settings, ours, batch) < limit
            assert logits_of(model, batch).shape == (len(lengths), 5)


def test_work_in_a_fresh_process_returns_its_result() -> None:
    """Exports and measured memory must not meet what this process has done."""
    assert in_fresh_process(os.getpid) != os.getpid()
    assert in_fresh_process(abs, -3) == 3
