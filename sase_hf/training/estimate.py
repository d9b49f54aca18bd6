"""How long a training will take, measured on a copy of the model before it starts."""

import copy
import time
from typing import Any

import numpy as np
import torch

from ..data.batching import parts_of_batch, token_counts
from .trainer import SelfAttentiveTrainer

NUM_TIMED = 4  # steps, after one that is not timed
EVALUATION_SHARE = 1 / 3  # of the time of a training step on the same rows: the forward pass


def estimate_seconds(trainer: SelfAttentiveTrainer) -> float:
    """Return the seconds that all epochs and their evaluations should take.

    Some batches of rows of all lengths go through a copy of the model and its optimizer; the state
    of the random numbers is left as it was.
    """
    rows: Any = trainer.train_dataset
    counts = np.array(token_counts(rows))
    by_length = counts.argsort(kind="stable")
    size = min(trainer.args.per_device_train_batch_size, len(counts))
    starts = np.linspace(0, len(counts) - size, NUM_TIMED).astype(int)
    batches = [by_length[start : start + size] for start in [starts[-1], *starts]]
    trained, trainer.model = trainer.model, copy.deepcopy(trainer.model).to(trainer.args.device)
    sums = trainer.output_sums.clone()
    args, model = trainer.args, trainer.model
    if getattr(args, "activation_checkpointing", False) or args.gradient_checkpointing:
        enable = getattr(model, "activation_checkpointing_enable", None)  # of transformers 5.23 on
        (enable or model.gradient_checkpointing_enable)()
    try:
        with torch.random.fork_rng():
            optimizer = torch.optim.AdamW(trainer.model.parameters(), fused=True)
            trainer.model.train()
            for number, batch in enumerate(batches):
                if number == 1:
                    start = time.perf_counter()
                inputs = trainer._prepare_inputs(
                    trainer.data_collator([rows[int(i)] for i in batch])
                )
                for part in parts_of_batch(inputs, trainer.max_batch_tokens):
                    with trainer.compute_loss_context_manager():
                        loss = trainer.compute_loss(trainer.model, part)
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            loss.item()  # waits for a GPU
            per_row = (time.perf_counter() - start) / (NUM_TIMED * size)
    finally:
        trainer.model = trained
        trainer.output_sums.copy_(sums)
    evaluation: Any = trainer.eval_dataset
    evaluated = 0 if evaluation is None else len(evaluation)
    per_epoch = len(counts) + EVALUATION_SHARE * evaluated
    epochs = trainer.args.num_train_epochs
    if trainer.args.max_steps > 0:
        per_update = trainer.args.train_batch_size * trainer.args.gradient_accumulation_steps
        epochs = trainer.args.max_steps * per_update * trainer.args.world_size / len(counts)
    return float(epochs * per_epoch * per_row / trainer.args.world_size)
