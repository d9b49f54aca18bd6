"""After training: how much the words count, on which rows they learn, and answer sets."""

import torch
from datasets import concatenate_datasets

from ...data.columns import AGAINST_COLUMNS
from ...data.table import present
from ...evaluation.linear_part import Fit, fit_linear_part, learn_anew
from ...evaluation.metrics import expected_calibration_error, fit_threshold
from ...training.task import TrainingSetup
from ...training.trainer import SelfAttentiveTrainer


def weigh_words(setup: TrainingSetup) -> Fit:
    """Fit the linear part of a trained model, and scale it and the hops on the validation rows."""
    tokens = setup.tokens
    fit = fit_linear_part(setup.model, tokens["train"], tokens.get("validation"))
    setup.model.linear_part.requires_grad_(True)
    return fit


def learn_held_out_rows(setup: TrainingSetup, fit: Fit) -> bool:
    """Let the linear part learn the rows that were held out, too, once nothing is measured on them.

    Return whether it did. Rows that the user gave to validate with are left alone; so are those of
    texts that have words marked against, which the training rows lack, and those with one label
    beside training rows with probabilities.
    """
    rows = setup.rows
    if "split_off" not in rows.sources.get("validation", {}):
        return False
    if present(AGAINST_COLUMNS, rows.splits["validation"]):
        return False
    columns = present(("input_ids", "token_type_ids", "labels"), setup.tokens["train"])
    parts = [setup.tokens[name].select_columns(columns) for name in ("train", "validation")]
    if parts[0].features != parts[1].features:
        return False
    learn_anew(setup.model, fit, concatenate_datasets(parts))
    return True


def calibrate(trainer: SelfAttentiveTrainer, setup: TrainingSetup) -> dict[str, float]:
    """Choose the threshold of answer sets by the validation rows; return the calibration error.

    Only for one label per row.
    """
    if not setup.rows.answers.has_one_label:
        return {}
    rows = setup.tokens["validation"]
    logits = torch.from_numpy(trainer.predict(rows, metric_key_prefix="eval").predictions).float()
    labels = torch.tensor(rows["labels"][:])
    probabilities = logits.softmax(-1)
    config = setup.model.config
    config.answer_threshold = fit_threshold(probabilities, labels, config.answer_error)
    return {"eval_calibration_error": expected_calibration_error(probabilities, labels)}
