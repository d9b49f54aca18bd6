"""The model that is measured, with weights as unlike zero as after training."""

from collections.abc import Mapping
from typing import Any

import torch

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification


def random_model(fields: Mapping[str, Any], seed: int) -> SelfAttentiveForSequenceClassification:
    """Return a model; the same fields and seed give the same weights.

    Args:
        fields: Fields of the config.
        seed: Of the weights.
    """
    torch.manual_seed(seed)
    model = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))
    with torch.no_grad():
        # Where biases and the vector of padding are zero, as they are at first, reading padding
        # changes nothing, and a comparison of outputs would not see it.
        for name, weight in model.named_parameters():
            if "bias" in name:
                weight.uniform_(-0.1, 0.1)
        model.encoder.embeddings.weight.normal_()
    return model
