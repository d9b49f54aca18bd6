"""`SelfAttentiveTrainer` beside the stock one: stopping, resuming, order and logs."""

import functools
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from guides import code_blocks
from runs import QUIET, collate, count_rows, make_rows, same_weights, weights
from tiny import tiny_config, tiny_model
from torch import Tensor
from transformers import (
    Trainer,
    TrainingArguments,
    set_seed,
)

from sase_hf import SelfAttentiveForRetrieval, SelfAttentiveForSequenceClassification
from sase_hf.evaluation.metrics import score
from sase_hf.training.run import is_complete
from sase_hf.training.trainer import SelfAttentiveTrainer

ROWS = make_rows("single_label")


def make_trainer(folder: Path, dropout: float = 0.5, **options: Any) -> Any:
    set_seed(0)
    config = tiny_config(num_labels=3, classifier_dropout=dropout, penalty_coef=0.5)
    settings = {"per_device_train_batch_size": 8, "num_train_epochs": 2, "learning_rate": 0.01}
    settings |= {"save_strategy": "no", "logging_steps": 1, **QUIET, **options}
    return SelfAttentiveTrainer(
        SelfAttentiveForSequenceClassification(config),
        TrainingArguments(folder, **settings),
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
    ("updates", "spoilt"),
    [
        (3, lambda loss: loss * math.nan),
        # A finite loss with an infinite gradient, that of a square root at zero.
        (0, lambda loss: loss + (loss - loss.detach()).sqrt()),
    ],
    ids=["loss", "gradient"],
)
def test_trainer_stops_before_an_update_with_a_value_that_is_not_finite(
    updates: int, spoilt: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    """The stock Trainer logs 0.0, spoils every weight and ends well."""
    training = make_trainer(tmp_path, save_strategy="steps", save_steps=1, max_steps=5)
    before = weights_of(training)
    spoil(training.model, at_call=updates, how=spoilt)
    with pytest.raises(FloatingPointError, match=f"not finite after {updates} updates"):
        training.train()
    saved = weights(tmp_path / f"checkpoint-{updates}") if updates else before
    assert same_weights(weights_of(training), saved)


def test_trainer_refuses_to_push(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"push_to_hub .*sase_hf\.hub\.push"):
        make_trainer(tmp_path, push_to_hub=True)


def test_trainer_refuses_several_gpus_in_one_process(tmp_path: Path) -> None:
    """In `nn.DataParallel`, which calls this of each module, no GPU sees the whole batch."""
    training = make_trainer(tmp_path)
    with pytest.raises(ValueError, match=r"torchrun --nproc_per_node"):
        training.model._replicate_for_data_parallel()


def losses_of(finished: Trainer) -> list[float]:
    return [entry["loss"] for entry in finished.state.log_history if "loss" in entry]


@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_trainer_that_is_resumed_goes_on_as_if_it_had_not_stopped(
    strategy: str, tmp_path: Path
) -> None:
    """Bit for bit: the weights, and the losses of updates that are logged at each checkpoint.

    The run has dropout, shuffling, momentum and evaluations; it is resumed within an epoch, at the
    end of one, and at its own end.
    """
    options = {"logging_steps": 2, "eval_strategy": "epoch", "train_sampling_strategy": strategy}
    options |= {"save_strategy": "steps", "save_steps": 2}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    for step in (6, 14, 16):
        resumed = make_trainer(tmp_path, **options)
        resumed.train(resume_from_checkpoint=tmp_path / f"checkpoint-{step}")
        assert same_weights(weights_of(resumed), weights_of(whole))
        assert losses_of(resumed) == losses_of(whole)


def test_trainer_that_had_ended_makes_no_update_when_it_is_resumed(tmp_path: Path) -> None:
    """The end is in the middle of an epoch; the stock Trainer makes another update."""
    finished = []
    for resumes in (False, True):
        training = make_trainer(tmp_path, max_steps=11, save_strategy="steps", save_steps=11)
        training.train(resume_from_checkpoint=resumes)
        assert training.state.global_step == 11
        finished.append(weights_of(training))
    assert same_weights(*finished)


def test_checkpoint_is_complete_once_the_random_state_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an earlier run in its place is not, as long as it is being replaced."""
    training = make_trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=5)
    checkpoint = tmp_path / "checkpoint-1"
    seen = []

    def watch() -> None:
        seen.append(((checkpoint / "rng_state.pth").is_file(), is_complete(checkpoint)))

    training.train()
    monkeypatch.setattr(training.accelerator, "wait_for_everyone", watch)
    (checkpoint / "rng_state.pth").unlink()
    training.train()
    assert seen == [(False, False), (True, False)]
    assert is_complete(checkpoint)


def test_trainer_learns_the_same_with_evaluations(tmp_path: Path) -> None:
    """Evaluations must not change the order of the rows or the dropout."""
    alone = make_trainer(tmp_path)
    alone.train()
    watched = make_trainer(tmp_path, eval_strategy="steps", eval_steps=3)
    watched.train()
    assert sum("eval_loss" in entry for entry in watched.state.log_history) > 3, "the premise"
    assert same_weights(weights_of(watched), weights_of(alone))


def test_trainer_evaluates_means_of_rows_and_predicts_in_their_order(tmp_path: Path) -> None:
    """Batches of unlike sizes, sorting and rows without a label change nothing."""
    training = make_trainer(tmp_path, train_sampling_strategy="group_by_length")
    labels = [-100 if i % 5 == 0 or i < 8 else label for i, label in enumerate(ROWS["labels"])]
    rows = ROWS.remove_columns("labels").add_column("labels", labels)
    with torch.no_grad():
        output = training.model.eval()(**collate(list(rows)))
    metrics = training.evaluate(rows)
    training.compute_metrics = None
    assert training.evaluate(rows)["eval_loss"] == metrics["eval_loss"]
    assert metrics["eval_loss"] == pytest.approx(output.loss.item(), abs=1e-5)
    penalty = output.penalty[torch.tensor(labels) != -100].mean().item()
    assert metrics["eval_penalty"] == pytest.approx(penalty, abs=1e-5)
    predicted = training.predict(rows, ignore_keys=["attentions", "sentence_embedding"])
    np.testing.assert_allclose(predicted.predictions[0], output.logits, atol=1e-5)
    np.testing.assert_allclose(predicted.predictions[1], output.penalty, atol=1e-5)
    assert predicted.label_ids.tolist() == labels
    unlabelled = training.predict(ROWS.remove_columns("labels"))
    np.testing.assert_allclose(unlabelled.predictions, output.logits, atol=1e-5)


@pytest.mark.parametrize("trainer_class", [Trainer, SelfAttentiveTrainer])
def test_own_loss_of_the_guide_is_exact_under_accumulation(
    tmp_path: Path, trainer_class: Any
) -> None:
    """Four accumulated batches of 2 rows, and the model's own loss of batches of 8 rows."""
    finished = []
    options = {"optim": "sgd", "max_steps": 5, "train_sampling_strategy": "sequential"}
    parts = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    for has_own, sizes in ((False, {}), (True, {}), (True, parts)):
        training = make_trainer(tmp_path, dropout=0.0, **options, **sizes)
        model = training.model
        own = {"compute_loss_func": own_loss_of_the_guide(model)} if has_own else {}
        data = {"train_dataset": ROWS, "data_collator": collate}
        stock = trainer_class(model, training.args, **data, **own)
        stock.train()
        finished.append(weights_of(stock))
    for learnt in finished[1:]:
        torch.testing.assert_close(learnt, finished[0], rtol=0, atol=1e-6)


def test_stock_trainer_takes_the_loss_of_a_ranker_for_a_mean(tmp_path: Path) -> None:
    """It would divide a sum by the labels of a column, which no ranker reads."""
    stock = Trainer(tiny_model(SelfAttentiveForRetrieval), make_trainer(tmp_path).args)
    assert not stock.model_accepts_loss_kwargs


def own_loss_of_the_guide(model: Any) -> Callable[..., Tensor]:
    """Return the function under "Own losses" in the guide."""
    blocks = code_blocks("scripts/guide/code.md", "python")
    [code] = [block for block in blocks if "def own_loss" in block]
    scope = {"model": model}
    exec(code.partition("trainer = ")[0], scope)
    loss: Callable[..., Tensor] = scope["own_loss"]
    return loss


def test_evaluation_gets_a_score_that_leaves_the_penalty_out(tmp_path: Path) -> None:
    """The score, and not a metric beside it, is what the stock `Trainer` compares."""
    best = {"load_best_model_at_end": True, "metric_for_best_model": "score"}
    training = make_trainer(tmp_path, eval_strategy="epoch", save_strategy="epoch", **best)
    training.train()
    evaluations = [entry for entry in training.state.log_history if "eval_loss" in entry]
    for entry in evaluations:
        log_loss = entry["eval_loss"] - 0.5 * entry["eval_penalty"]
        assert entry["eval_score"] == score("loss", entry["eval_loss"], log_loss)
    assert training.state.best_metric == max(entry["eval_score"] for entry in evaluations)


def test_trainer_logs_the_mean_loss_and_penalty_since_the_last_log(tmp_path: Path) -> None:
    """Not the mean over all updates so far, which would make every run look like one that learns.

    At so low a learning rate the weights stay, so each expected value is known.
    """
    options = {"learning_rate": 1e-30, "num_train_epochs": 1, "logging_steps": 2}
    training = make_trainer(tmp_path, dropout=0.0, train_sampling_strategy="sequential", **options)
    training.train()
    logs = [entry for entry in training.state.log_history if "loss" in entry]
    training.model.eval()
    for place, entry in enumerate(logs):  # two batches of 8 rows a log
        rows = ROWS.select(range(16 * place, 16 * place + 16))
        expected = training.model(**collate(rows))
        assert entry["loss"] == pytest.approx(expected.loss.item(), abs=1e-5)
        assert entry["penalty"] == pytest.approx(expected.penalty.mean().item(), abs=1e-5)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
def test_stock_trainer_trains_lora_that_merges_and_reloads(tmp_path: Path) -> None:
    """On LSTM, attention and MLP; a saved adapter loads with its base, the merged model alone."""
    plain, load = make_trainer(tmp_path), SelfAttentiveForSequenceClassification.from_pretrained
    base, adapter, merged = (str(tmp_path / name) for name in ("base", "adapter", "merged"))
    plain.save_model(base)
    matrices = ["weight_ih_l0", "weight_ih_l0_reverse"]
    layers = ["projection", "hops", "hidden", "output"]
    config = peft.LoraConfig(r=2, target_parameters=matrices, target_modules=layers)
    model = peft.get_peft_model(load(base), config)
    Trainer(model, plain.args, train_dataset=ROWS, data_collator=collate).train()
    learnt = [weight for name, weight in model.named_parameters() if "lora_B" in name]
    assert [bool(weight.any()) for weight in learnt] == [True] * 6
    batch = collate(ROWS.select(range(5)))
    expected = model.eval()(**batch).logits
    model.save_pretrained(adapter)
    model.merge_and_unload().save_pretrained(merged)
    for saved in (adapter, merged):
        torch.testing.assert_close(load(saved)(**batch).logits, expected, rtol=0, atol=1e-5)
