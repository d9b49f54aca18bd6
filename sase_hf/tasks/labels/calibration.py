"""Calibration after training: probabilities that fit the validation rows, and answer sets."""

import torch
from datasets import concatenate_datasets

from ...data.columns import AGAINST_COLUMNS
from ...data.table import present
from ...evaluation.calibration import (
    expected_calibration_error,
    fit_temperature,
    fit_threshold,
)
from ...evaluation.linear_part import Fit, fit_linear_part, learn_anew
from ...training.task import TrainingSetup
from ...training.trainer import SelfAttentiveTrainer

# Bounds of the temperature: a few rows that are all right would ask for boundless confidence,
# random rows for none.
LEAST = 0.25
MOST = 10.0
FEW_ROWS = 100


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


def calibrate(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, *, is_scaled: bool = False
) -> dict[str, float]:
    """Fit the probabilities, and the threshold of answer sets, to the validation rows.

    The logits are divided by the temperature that makes the labels most likely (Guo et al., 2017).
    The last layer is divided, so that the saved model, its export and its pipelines need no more.
    No prediction changes. Only for one label per row. The temperature stays 1 where all rows are
    right, below `FEW_ROWS` rows, and if the model `is_scaled` on these rows already, as
    `weigh_words` does.

    Returns `temperature`, the calibration error with it, and without it unless the model
    `is_scaled`.
    """
    if not setup.rows.answers.has_one_label:
        return {}
    rows = setup.tokens["validation"]
    logits = torch.from_numpy(trainer.predict(rows, metric_key_prefix="eval").predictions).float()
    labels = torch.tensor(rows["labels"][:])
    measured = {"temperature": 1.0}
    if not is_scaled:
        error = expected_calibration_error(logits.softmax(-1), labels)
        measured["eval_calibration_error_before"] = error
        if len(labels) >= FEW_ROWS and (logits.argmax(-1) != labels).any():
            measured["temperature"] = fit_temperature(logits, labels, LEAST, MOST)
    with torch.no_grad():
        for parameter in setup.model.get_submodule("classifier.output").parameters():
            parameter.div_(measured["temperature"])
    probabilities = (logits / measured["temperature"]).softmax(-1)
    measured["eval_calibration_error"] = expected_calibration_error(probabilities, labels)
    config = setup.model.config
    config.answer_threshold = fit_threshold(probabilities, labels, config.answer_error)
    return measured
