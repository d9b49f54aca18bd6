"""The settings of a command that names no step, and why they have these values."""

import argparse
from typing import Any

# Train on all but a tenth of the rows, stop when those get no better, keep the best epoch.
HELD_OUT = {
    "do_eval": True,
    "validation_fraction": 0.1,
    "eval_strategy": "epoch",
    "load_best_model_at_end": True,
    "metric_for_best_model": "auto",
    "early_stopping_patience": 3,
}

# The paper's sizes, 40 million weights, are for millions of pairs; these are for thousands.
NEW_TRANSLATION = {
    "subwords": True,
    "vocab_size": 6000,
    "embedding_size": 256,
    "hidden_size": 256,
    "attention_size": 256,
    "maxout_size": 128,
    "dropout": 0.3,
    "initializer_range": 0.05,
    "learning_rate": 1.5e-3,
    "label_smoothing": 0.1,
}


def defaults(task: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that follow from the rows and the model which a command names."""
    if given.train_file is None and given.dataset_name is None:
        return {} if given.validation_file is None else {"do_eval": True}
    chosen: dict[str, Any] = {
        "do_train": True,
        "num_train_epochs": 0,  # 2 to 30, fewer for more rows
        "train_sampling_strategy": "group_by_length",
        "warmup_steps": 0.05,
        "save_total_limit": 1,
    }
    has_own_split = given.validation_file is not None or given.dataset_name is not None
    has_held_out = has_own_split or given.validation_fraction != 0
    if has_held_out:
        chosen |= HELD_OUT
    is_new = given.model_name_or_path is None
    if task == "translation" and is_new:
        chosen |= NEW_TRANSLATION
        if has_held_out:
            chosen["metric_for_best_model"] = "loss"  # BLEU is 0 for the first epochs
    elif task in ("labels", "nli"):
        chosen |= _of_labels(given, has_held_out, is_new)
    return chosen


def _of_labels(given: argparse.Namespace, has_held_out: bool, is_new: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if has_held_out:
        chosen |= {"calibrate": True, "report": True}
    if is_new:
        chosen["matching"] = "concat"  # gates, the paper's way, are three points behind on pairs
        if given.encoder_name_or_path is not None:
            # The learning rate of a new model would destroy the pretrained weights.
            chosen |= {"learning_rate": 5e-5, "embedding_dropout": 0.0}
        elif given.tokenizer_name is None:
            # The vector of a word that occurs once would never be trained as that of a word.
            chosen["min_frequency"] = 2
    return chosen
