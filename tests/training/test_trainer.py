"""`SelfAttentiveTrainer` beside the stock one: stopping, resuming, order and logs."""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import peft
import pytest
import torch
from runs import collate, count_rows, make_rows, same_weights, weights
from tiny import tiny_config
from torch import Tensor
from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from sase_hf import SelfAttentiveForSequenceClassification
from sase_hf.data.batching import longest_first, token_counts
from sase_hf.evaluation.metrics import score
from sase_hf.training.run import is_complete
from sase_hf.training.trainer import SelfAttentiveTrainer, write_lines

# What Trainer measures of itself.
TIMINGS = ("_runtime", "_per_second", "_preparation_time")

ROWS = make_rows("single_label")
LSTM_MATRICES = [
    f"{way}_lstm.weight_{kind}h_l0" for way in ("forward", "backward") for kind in "ih"
]
SHOWN = {"do_train": True, "disable_tqdm": False}
EVERY_FIVE = {"save_strategy": "steps", "save_steps": 5}


def make_trainer(folder: Path, dropout: float = 0.5, **options: Any) -> Any:
    set_seed(0)
    config = tiny_config(num_labels=3, classifier_dropout=dropout, penalty_coef=0.5)
    settings = {
        "per_device_train_batch_size": 8,
        "num_train_epochs": 2,
        "learning_rate": 0.01,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return SelfAttentiveTrainer(
        SelfAttentiveForSequenceClassification(config),
        TrainingArguments(str(folder), **{**settings, **options}),
        train_dataset=ROWS,
        eval_dataset=ROWS.select(range(13)),
        data_collator=collate,
        compute_metrics=count_rows,
    )


def weights_of(finished: Trainer) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in finished.model.state_dict().items()}


def spoil(model: torch.nn.Module, at_call: int, how: Callable[[Tensor], Tensor]) -> None:
    """Let a model's loss go wrong at one of its calls."""
    forward, calls = model.forward, itertools.count()

    @functools.wraps(forward)  # Trainer reads the signature
    def broken(*args: Any, **kwargs: Any) -> Any:
        outputs = forward(*args, **kwargs)
        if next(calls) == at_call:
            outputs["loss"] = how(outputs["loss"])
        return outputs

    model.forward = broken


@pytest.mark.parametrize(
    ("updates", "spoilt", "message"),
    [
        (3, lambda loss: loss * math.nan, r"not finite after 3 updates"),
        # A finite loss with an infinite gradient, that of a square root at zero.
        (
            0,
            lambda loss: loss + (loss - loss.detach()).sqrt(),
            r"not finite after 0 updates",
        ),
    ],
    ids=["loss", "gradient"],
)
def test_trainer_stops_before_an_update_with_a_value_that_is_not_finite(
    updates: int, spoilt: Callable[[Tensor], Tensor], message: str, tmp_path: Path
) -> None:
    """The stock Trainer logs 0.0, spoils every weight and ends well."""
    training = make_trainer(tmp_path, save_strategy="steps", save_steps=1, max_steps=5)
    before = weights_of(training)
    spoil(training.model, at_call=updates, how=spoilt)
    with pytest.raises(FloatingPointError, match=message):
        training.train()
    saved = weights(tmp_path / f"checkpoint-{updates}") if updates else before
    assert same_weights(weights_of(training), saved)


def test_trainer_refuses_to_push(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"push_to_hub .*sase_hf\.hub\.push"):
        make_trainer(tmp_path, push_to_hub=True)
    with pytest.raises(ValueError, match=r"call sase_hf\.hub\.push"):
        make_trainer(tmp_path).push_to_hub()


def test_trainer_refuses_several_gpus_in_one_process(tmp_path: Path) -> None:
    training = make_trainer(tmp_path)
    training.args._n_gpu = 2
    with pytest.raises(ValueError, match=r"2 GPUs .*torchrun --nproc_per_node 2"):
        SelfAttentiveTrainer(training.model, training.args)


def test_trainer_reads_streams_which_have_no_sampler(tmp_path: Path) -> None:
    training = make_trainer(tmp_path, max_steps=2)
    training.train_dataset = ROWS.to_iterable_dataset()
    assert training.train().global_step == 2
    stream = ROWS.select(range(13)).to_iterable_dataset()
    assert training.evaluate(stream)["eval_penalty"] > 0
    assert len(training.predict(stream).predictions) == 13


@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_trainer_that_is_resumed_goes_on_as_if_it_had_not_stopped(
    strategy: str, tmp_path: Path
) -> None:
    """Bit for bit: the weights, and the logs of updates that are logged at each checkpoint.

    The run has dropout, shuffling, momentum and evaluations; it is resumed within an epoch, at the
    end of one, and at its own end.
    """
    options = {"logging_steps": 2, "eval_strategy": "epoch", "train_sampling_strategy": strategy}
    options |= {"save_strategy": "steps", "save_steps": 2}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    logs = untimed(whole.state.log_history)
    for step in (6, 14, 16):
        resumed = make_trainer(tmp_path, **options)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert same_weights(weights_of(resumed), weights_of(whole))
        if step < 16:  # the evaluation of the last epoch comes after its checkpoint
            assert untimed(resumed.state.log_history)[:-1] == logs[:-1]


def untimed(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in entry.items() if not k.endswith(TIMINGS)} for entry in logs]


@pytest.mark.parametrize(
    "options",
    [
        {"max_steps": 11, "save_strategy": "steps", "save_steps": 11},
        {"learning_rate": 1e-30, "eval_strategy": "steps", "eval_steps": 3, "save_steps": 3},
    ],
    ids=["max_steps", "early stopping"],
)
def test_trainer_that_had_ended_makes_no_update_when_it_is_resumed(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """The end is in the middle of an epoch; the stock Trainer makes another update."""
    if "eval_steps" in options:
        options |= {"load_best_model_at_end": True, "save_strategy": "steps"}
    finished = []
    for resumes in (False, True):
        training = make_trainer(tmp_path, **options)
        if "eval_steps" in options:
            training.add_callback(EarlyStoppingCallback(2))
        training.train(resume_from_checkpoint=resumes)
        assert training.state.global_step == options.get("max_steps", 9)
        finished.append(weights_of(training))
    assert same_weights(*finished)


def test_checkpoint_is_complete_once_the_random_state_of_each_process_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an earlier run in its place is not, as long as it is being replaced."""
    training = make_trainer(tmp_path, max_steps=1, **EVERY_FIVE)
    seen = []

    def watch() -> None:
        names = {path.name for path in (tmp_path / "checkpoint-1").iterdir()}
        seen.append(("rng_state.pth" in names, "trainer_state.json" in names))

    training.train()
    monkeypatch.setattr(training.accelerator, "wait_for_everyone", watch)
    (tmp_path / "checkpoint-1" / "rng_state.pth").unlink()
    training.train()
    assert seen == [(False, False), (True, False)]
    assert is_complete(tmp_path / "checkpoint-1")


def test_trainer_learns_the_same_with_evaluations(tmp_path: Path) -> None:
    """Evaluations must not change the order of the rows or the dropout."""
    alone = make_trainer(tmp_path)
    alone.train()
    watched = make_trainer(tmp_path, eval_strategy="steps", eval_steps=3)
    watched.train()
    assert sum("eval_loss" in entry for entry in watched.state.log_history) > 3, "the premise"
    assert same_weights(weights_of(watched), weights_of(alone))


@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_trainer_evaluates_means_of_rows_and_predicts_in_their_order(
    strategy: str, tmp_path: Path
) -> None:
    """Batches of unlike sizes, sorting and rows without a label change nothing."""
    training = make_trainer(tmp_path, train_sampling_strategy=strategy)
    labels = [-100 if i % 5 == 0 or i < 8 else label for i, label in enumerate(ROWS["labels"])]
    rows = ROWS.remove_columns("labels").add_column("labels", labels)
    model = training.model.eval()
    with torch.no_grad():
        output = model(**collate(list(rows)))
    metrics = training.evaluate(rows)
    penalty = output.penalty[torch.tensor(labels) != -100].mean().item()
    expected = (output.loss.item(), penalty)
    assert (metrics["eval_loss"], metrics["eval_penalty"]) == pytest.approx(expected, abs=1e-5)
    both = training.predict(rows, ignore_keys=["attentions"])
    for found, wanted in zip(both.predictions, (output.logits, output.penalty), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert both.label_ids.tolist() == labels
    unlabelled = training.predict(ROWS.remove_columns("labels"))
    np.testing.assert_allclose(unlabelled.predictions, output.logits, atol=1e-5)
    assert unlabelled.label_ids is None


def test_trainer_predicts_in_order_where_the_last_batch_is_left_out(tmp_path: Path) -> None:
    """The shortest rows are in it, wherever they stand."""
    training = make_trainer(
        tmp_path,
        train_sampling_strategy="group_by_length",
        dataloader_drop_last=True,
        per_device_eval_batch_size=10,
    )
    predicted = training.predict(ROWS).label_ids.tolist()
    assert len(predicted) == 60
    read = sorted(longest_first(token_counts(ROWS))[: len(predicted)])
    assert predicted == [ROWS["labels"][row] for row in read]


def test_trainer_keeps_another_loss_than_the_models(tmp_path: Path) -> None:
    """Label smoothing or `compute_loss_func` may replace the model's loss."""
    training = make_trainer(tmp_path, num_train_epochs=1, label_smoothing_factor=0.1)
    training.train()
    smoothed = training.evaluate()
    training.label_smoother = None
    assert smoothed["eval_loss"] != pytest.approx(training.evaluate()["eval_loss"], abs=1e-4)
    training.compute_loss_func = lambda outputs, labels, num_items_in_batch: torch.tensor(7.0)
    assert training.evaluate()["eval_loss"] == 7
    assert smoothed["eval_penalty"] > 0


@pytest.mark.parametrize("trainer_class", [Trainer, SelfAttentiveTrainer])
def test_own_loss_of_the_guide_is_exact_under_accumulation(
    tmp_path: Path, trainer_class: Any
) -> None:
    """Four accumulated batches of 2 rows, and the model's own loss of batches of 8 rows."""
    finished = {}
    for name in ("model", "own", "accumulated"):
        training = make_trainer(tmp_path, dropout=0.0)
        settings = {"optim": "sgd", "max_steps": 5, "train_sampling_strategy": "sequential"}
        if name == "accumulated":
            settings |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
        args = dataclasses.replace(training.args, **settings)
        model = training.model
        own = {} if name == "model" else {"compute_loss_func": own_loss_of_the_guide(model)}
        stock = trainer_class(model, args, train_dataset=ROWS, data_collator=collate, **own)
        stock.train()
        finished[name] = weights_of(stock)
    torch.testing.assert_close(finished["own"], finished["model"], rtol=0, atol=1e-6)
    torch.testing.assert_close(finished["accumulated"], finished["model"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("trainer_class", [Trainer, SelfAttentiveTrainer])
@pytest.mark.parametrize("way", ["compute_loss_func", "labels left in", "labels taken out"])
def test_trainer_learns_from_what_an_own_loss_computes(
    way: str, tmp_path: Path, trainer_class: Any
) -> None:
    """Without the penalty if the loss has none."""
    training = make_trainer(tmp_path, dropout=0.0)
    model = training.model
    settings = {"optim": "sgd", "max_steps": 1, "learning_rate": 0.1, "max_grad_norm": 0.0}
    settings |= {"per_device_train_batch_size": len(ROWS), "warmup_steps": 0}
    args = dataclasses.replace(training.args, **settings)
    batch = collate(list(ROWS))
    labels = batch.pop("labels")
    loss = torch.nn.functional.cross_entropy(model.train()(**batch).logits, labels)
    gradients = torch.autograd.grad(loss, [*model.parameters()])
    expected = [p - 0.1 * slope for p, slope in zip(model.parameters(), gradients, strict=True)]

    def own_loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return torch.nn.functional.cross_entropy(outputs["logits"], labels)

    class OwnLoss(trainer_class):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            labels = inputs["labels"] if way == "labels left in" else inputs.pop("labels")
            return own_loss(model(**inputs), labels)

    data: dict[str, Any] = {"train_dataset": ROWS, "data_collator": collate}
    if way == "compute_loss_func":
        trainer_class(model, args, **data, compute_loss_func=own_loss).train()
    else:
        OwnLoss(model, args, **data).train()
    torch.testing.assert_close([*model.parameters()], expected, rtol=0, atol=1e-6)


def own_loss_of_the_guide(model: Any) -> Callable[..., Tensor]:
    """Return the function under "Own losses" in the guide."""
    page = Path(__file__).parents[2].joinpath("scripts/guide/code.md").read_text(encoding="utf-8")
    code = page.partition("## Own losses")[2].partition("```python\n")[2].partition("```")[0]
    scope: dict[str, Any] = {"model": model}
    exec(code.partition("trainer = ")[0], scope)
    loss: Callable[..., Tensor] = scope["own_loss"]
    return loss


def test_evaluation_gets_a_score_that_leaves_the_penalty_out(tmp_path: Path) -> None:
    """The score, and not a metric beside it, is what the stock `Trainer` compares."""
    training = make_trainer(
        tmp_path,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="score",
    )
    training.train()
    evaluations = [entry for entry in training.state.log_history if "eval_loss" in entry]
    assert len(evaluations) == 2
    for entry in evaluations:
        log_loss = entry["eval_loss"] - 0.5 * entry["eval_penalty"]
        assert entry["eval_score"] == score("loss", entry["eval_loss"], log_loss)
    assert training.state.best_metric == max(entry["eval_score"] for entry in evaluations)


def lines_of(training: SelfAttentiveTrainer, capsys: pytest.CaptureFixture[str]) -> list[str]:
    write_lines(training)
    training.train()
    training.evaluate()
    written = capsys.readouterr().err.replace("\x1b[A", "\n")  # a bar above, of another test
    lines = re.sub(r"\d\d:\d\d left", "(time) left", written).splitlines()
    return [line for line in lines if line.startswith(("epoch ", "kept "))]


@pytest.mark.parametrize(
    ("num_epochs", "ending"),
    [
        (2, "epoch 2 of 2, as planned"),
        (9, "epoch 3 of 9, as none after it was better"),
    ],
)
def test_epoch_lines_say_what_was_measured_and_which_epoch_is_kept(
    num_epochs: int, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a learning rate of almost 0 nothing gets better after the first epoch."""
    training = make_trainer(
        tmp_path,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        learning_rate=1e-30,
        num_train_epochs=num_epochs,
        **SHOWN,
    )
    training.score_metric = "accuracy"
    training.compute_metrics = lambda _: {"accuracy": 0.75}
    training.add_callback(EarlyStoppingCallback(2))
    *lines, last = lines_of(training, capsys)
    assert len(lines) == min(num_epochs, 3)
    for epoch, line in enumerate(lines, 1):
        start = f"epoch {epoch} of {num_epochs}: right for 75% of 13 held-out rows, loss "
        assert re.fullmatch(rf"{start}[\d.]+; \(time\) left", line)
    assert last.startswith("kept epoch 1: right for 75% of 13 held-out rows, loss ")
    assert last.endswith(f"; training ended after {ending}")


@pytest.mark.parametrize("fp16", [False, True])
def test_trainer_leaves_infinite_gradients_to_the_scaling_of_fp16(
    fp16: bool, tmp_path: Path
) -> None:
    """The scale is lowered until they are finite; in another precision the weights would be NaN."""
    trainer = make_trainer(tmp_path)
    trainer._tr_loss = torch.zeros(())
    for parameter in trainer.model.parameters():
        parameter.grad = torch.full_like(parameter, torch.inf)
    args = SimpleNamespace(**vars(trainer.args) | {"fp16": fp16})
    if fp16:
        trainer.on_pre_optimizer_step(args, trainer.state, None, model=trainer.model)
        return
    with pytest.raises(FloatingPointError, match="not finite"):
        trainer.on_pre_optimizer_step(args, trainer.state, None, model=trainer.model)


def test_trainer_logs_the_mean_loss_and_penalty_since_the_last_log(tmp_path: Path) -> None:
    """Not the mean over all updates so far, which would make every run look like one that learns.

    At so low a learning rate the weights stay, so each expected value is known.
    """
    options = {"learning_rate": 1e-30, "num_train_epochs": 1, "logging_steps": 2}
    training = make_trainer(tmp_path, dropout=0.0, train_sampling_strategy="sequential", **options)
    training.train()
    logs = [entry for entry in training.state.log_history if "loss" in entry]
    training.model.eval()
    with torch.no_grad():
        parts = [  # two batches of 8 rows a log
            training.model(**collate(ROWS.select(range(start, start + 16))))
            for start in range(0, len(ROWS), 16)
        ]
    for name in ("loss", "penalty"):
        expected = torch.stack([part[name].mean() for part in parts])
        assert expected.std() > 1e-3, "the premise: the batches differ"
        assert [entry[name] for entry in logs] == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
@pytest.mark.parametrize(
    ("matrices", "layers"),
    [(LSTM_MATRICES, []), ([], ["projection", "hops"]), ([], ["hidden", "output"])],
)
def test_stock_trainer_trains_lora_that_merges_and_reloads(
    tmp_path: Path, matrices: list[str], layers: list[str]
) -> None:
    """On LSTM, attention or MLP; a saved adapter loads with its base, the merged model alone."""
    plain, load = make_trainer(tmp_path), SelfAttentiveForSequenceClassification.from_pretrained
    base, adapter, merged = (str(tmp_path / name) for name in ("base", "adapter", "merged"))
    plain.save_model(base)
    config = peft.LoraConfig(r=2, target_parameters=matrices, target_modules=layers)
    model = peft.get_peft_model(load(base), config)
    Trainer(model, plain.args, train_dataset=ROWS, data_collator=collate).train()
    learnt = [weight for name, weight in model.named_parameters() if "lora_B" in name]
    assert [bool(weight.any()) for weight in learnt] == [True] * len(matrices + layers)
    batch = collate(ROWS.select(range(5)))
    expected = model.eval()(**batch).logits
    model.save_pretrained(adapter)
    model.merge_and_unload().save_pretrained(merged)
    for saved in (adapter, merged):
        torch.testing.assert_close(load(saved)(**batch).logits, expected, rtol=0, atol=1e-5)
