"""One batch, accumulated parts, or several processes: the same loss, gradient and logs.

Two processes on the CPU do once everything that needs them; what they saved is compared with what
this process computes.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from packaging.version import Version
from runs import (
    NUM_ROWS,
    PROBLEMS,
    QUIET,
    TINY_MODEL,
    collate,
    count_rows,
    flags,
    in_two_processes,
    make_rows,
    read_lines,
    write_splits,
)
from script_files import load_command
from tiny import tiny_config
from torch import Tensor
from torch.testing import assert_close
from transformers import PreTrainedModel, Trainer, TrainingArguments, set_seed

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
)
from sase_hf.training.run import is_complete, list_checkpoints
from sase_hf.training.trainer import SelfAttentiveTrainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* is multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.skipif(
        Version(transformers.__version__) < Version("5.18"),
        reason="resuming in several processes on the CPU needs transformers 5.18",
    ),
]

# The order of float32 sums; a wrong scale of loss or penalty is off by more than 1e-3 here.
TOLERANCE = 1e-6
Weights = dict[str, Tensor]
Learnt = tuple[Weights, list[dict[str, float]]]


def make_model(problem: str) -> PreTrainedModel:
    heads = {"pairs": SelfAttentiveForNLI, "retrieval": SelfAttentiveForRetrieval}
    head = heads.get(problem, SelfAttentiveForSequenceClassification)
    set_seed(0)
    return head(tiny_config(penalty_coef=0.5, rationale_coef=0.5, **PROBLEMS.get(problem, {})))


def make_trainer(
    model: PreTrainedModel, folder: Path, problem: str, kind: Callable[..., Trainer], **options: Any
) -> Any:
    """Return a trainer for the CPU that neither logs to a screen nor saves by itself."""
    given = {**QUIET, "save_strategy": "no", **options}
    settings = TrainingArguments(folder, **given)
    return kind(
        model,
        settings,
        train_dataset=make_rows(problem),
        data_collator=collate,
        compute_metrics=count_rows,
    )


def two_updates(problem: str, folder: Path, batch_size: int, accumulated: int = 1) -> Learnt:
    """Train for two updates of plain SGD on 32 rows each; return weights and logs."""
    model = make_model(problem)
    kind = SelfAttentiveTrainer if problem == "pairs" else Trainer  # which logs a penalty, too
    options = {"optim": "sgd", "learning_rate": 0.5, "lr_scheduler_type": "constant"}
    options |= {"max_steps": 2, "max_grad_norm": 0, "logging_steps": 1}
    options |= {"train_sampling_strategy": "sequential"}
    sizes = {"per_device_train_batch_size": batch_size, "gradient_accumulation_steps": accumulated}
    trainer = make_trainer(model, folder, problem, kind, **sizes, **options)
    trainer.train()
    return model.state_dict(), trainer.state.log_history[:2]


def two_epochs(folder: Path, **options: Any) -> tuple[SelfAttentiveTrainer, Weights]:
    """Train with dropout and batches of like lengths, saving in the middle of each epoch."""
    set_seed(0)
    config = tiny_config(classifier_dropout=0.5, **PROBLEMS["single_label"])
    model = SelfAttentiveForSequenceClassification(config)
    settings = {"save_strategy": "steps", "save_steps": 3, "per_device_train_batch_size": 8}
    settings |= {"train_sampling_strategy": "group_by_length"}
    settings |= {"num_train_epochs": 2, "learning_rate": 0.01}
    trainer = make_trainer(model, folder, "single_label", SelfAttentiveTrainer, **settings)
    trainer.train(**options)
    return trainer, {name: weight.clone() for name, weight in model.state_dict().items()}


def work(folder: Path) -> None:
    """Do, as one of two processes, all that the tests below ask of two."""
    results: dict[str, Any] = {}
    for problem in (*PROBLEMS, "retrieval"):
        results[problem] = two_updates(problem, folder / problem, batch_size=16)
    trainer, results["uninterrupted"] = two_epochs(folder / "run")
    # 61 rows: the last batches are filled up with repeated rows, which must not count.
    odd_rows = make_rows("single_label").select(range(61))
    results["evaluated"] = trainer.evaluate(odd_rows)
    results["predicted"] = trainer.predict(odd_rows).predictions
    checkpoint = str(folder / "run" / "checkpoint-6")  # after 2 of 4 updates of the second epoch
    trainer, results["resumed"] = two_epochs(folder / "run", resume_from_checkpoint=checkpoint)
    results["times_seen"] = times_seen(trainer)
    if trainer.is_world_process_zero():
        torch.save(results, folder / "results.pt")


def times_seen(trainer: SelfAttentiveTrainer) -> list[float]:
    """Count how often each row comes up in an epoch, over both processes."""
    torch.manual_seed(trainer.args.process_index)  # as after dropout on batches of unlike shapes
    seen = torch.zeros(NUM_ROWS)
    for batch in trainer.get_train_dataloader().batch_sampler:
        seen[batch] += 1
    return trainer.accelerator.reduce(seen, reduction="sum").tolist()


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("two_processes")
    in_two_processes(work, folder)
    results: dict[str, Any] = torch.load(folder / "results.pt", weights_only=False)
    return results


@pytest.mark.parametrize("problem", PROBLEMS)
def test_trainer_learns_and_logs_the_same_from_split_batches(
    problem: str, two_processes: dict[str, Any], tmp_path: Path
) -> None:
    """32 rows at once, 4 x 8 accumulated, or 2 processes x 16: the same steps of SGD."""
    start = make_model(problem).state_dict()
    whole, logs = two_updates(problem, tmp_path / "whole", batch_size=32)
    moved = max((whole[name] - weight).abs().max() for name, weight in start.items())
    assert moved > 1e3 * TOLERANCE, "the premise: weights moved far enough to tell"
    assert ("penalty" in logs[0]) == (problem == "pairs")
    split = two_updates(problem, tmp_path / "split", batch_size=8, accumulated=4)
    for learnt, entries in (split, two_processes[problem]):
        assert_close(learnt, whole, rtol=0, atol=TOLERANCE)
        for entry, expected in zip(entries, logs, strict=True):
            for name in {"loss", "penalty"} & expected.keys():
                assert entry[name] == pytest.approx(expected[name], abs=1e-5)


def test_retrieval_head_compares_with_the_documents_of_all_processes(
    two_processes: dict[str, Any], tmp_path: Path
) -> None:
    """32 pairs at once and 2 processes x 16 learn the same; accumulated, negatives are fewer."""
    whole, _ = two_updates("retrieval", tmp_path / "whole", batch_size=32)
    assert_close(two_processes["retrieval"][0], whole, rtol=1e-5, atol=1e-5)
    parts, _ = two_updates("retrieval", tmp_path / "parts", batch_size=16, accumulated=2)
    assert max((parts[name] - weight).abs().max() for name, weight in whole.items()) > 1e-3


def test_trainer_shares_every_row_once_and_resumes_bit_for_bit(
    two_processes: dict[str, Any],
) -> None:
    """Both draw the same batches, and continue with the rows and random state of their own."""
    assert two_processes["times_seen"] == [1.0] * NUM_ROWS
    assert_close(two_processes["resumed"], two_processes["uninterrupted"], rtol=0, atol=0)


def test_trainer_evaluates_each_row_once_and_in_order_in_two_processes(
    two_processes: dict[str, Any], tmp_path: Path
) -> None:
    """Rows that fill the last batch do not count; predictions keep the order of the rows."""
    evaluated = two_processes["evaluated"]
    assert evaluated["eval_rows"] == 61
    model = SelfAttentiveForSequenceClassification(tiny_config(**PROBLEMS["single_label"]))
    model.load_state_dict(two_processes["uninterrupted"])
    model.eval()
    rows = list(make_rows("single_label"))[:61]
    with torch.no_grad():
        output = model(**collate(rows))
    np.testing.assert_allclose(two_processes["predicted"], output.logits.numpy(), atol=1e-6)
    assert evaluated["eval_loss"] == pytest.approx(output.loss.item(), abs=1e-5)
    assert evaluated["eval_penalty"] == pytest.approx(output.penalty.mean().item(), abs=1e-5)


def logged(run: Path) -> list[dict[str, float]]:
    """Return the losses and penalties of the updates and of the evaluation."""
    entries = json.loads((run / "trainer_state.json").read_text())["log_history"]
    entries.append(json.loads((run / "eval_results.json").read_text()))
    names = ("loss", "penalty", "eval_loss", "eval_penalty", "eval_accuracy")
    kept = ({name: entry[name] for name in names if name in entry} for entry in entries)
    return [entry for entry in kept if entry]


def train_as_on_a_machine(folder: Path, words: list[str]) -> None:
    """Run the command in a folder that the other process does not have."""
    os.environ["LOCAL_RANK"] = "0"
    own = folder / f"machine_{torch.distributed.get_rank()}"
    own.mkdir()
    os.chdir(own)
    load_command("train").main(words)


def test_train_on_two_machines_equals_one_process(tmp_path: Path) -> None:
    """The second machine writes only the random state of its process."""
    options = {**TINY_MODEL, **QUIET, **write_splits(tmp_path), "max_steps": 4}
    options |= {"do_train": True, "do_eval": True, "do_predict": True, "logging_steps": 1}
    options |= {"embedding_dropout": 0.0, "classifier_dropout": 0.0, "record": "record.json"}
    one = tmp_path / "one"
    alone = {"per_device_train_batch_size": 12, "output_dir": one, "record": one / "record.json"}
    load_command("train").main(flags(**{**options, **alone}))
    expected = logged(one)
    assert len(expected) == 5, "the premise: 4 updates and an evaluation"

    words = flags(**options, per_device_train_batch_size=6, output_dir="run")
    in_two_processes(train_as_on_a_machine, tmp_path, words)
    first, second = (tmp_path / f"machine_{rank}" for rank in range(2))
    assert logged(first / "run") == [pytest.approx(entry, abs=1e-5) for entry in expected]
    predictions, expected_predictions = (
        [line["scores"] for line in read_lines(run / "predictions.jsonl")]
        for run in (first / "run", one)
    )
    assert predictions == [pytest.approx(scores, abs=1.1e-4) for scores in expected_predictions]
    assert json.loads((first / "record.json").read_text())["hardware"]["processes"] == 2
    assert is_complete(list_checkpoints(first / "run")[0])
    assert {path.name for path in second.rglob("*") if path.is_file()} == {"rng_state_1.pth"}
