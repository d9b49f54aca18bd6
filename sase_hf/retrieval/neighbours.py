"""Nearest-neighbour accuracy, layer by layer: does a sentence lie nearest to its translation?

The measure is that of Pires, Schlinger and Garrette, *How multilingual is Multilingual BERT?*
(ACL 2019), section 5.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

SHIFTS = ("none", "other", "same")


@torch.inference_mode()
def layer_vectors(
    model: Any, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], batch_size: int = 32
) -> dict[str, Tensor]:
    """Return the vectors (N, H) of N texts by the name of their layer.

    `layer 0` is the mean word vector and `layer i` the mean state of layer i, without special
    tokens; a text without tokens has the vector 0. `hop i` is row i of a sentence matrix, and
    `sentence` the sentence embedding, if the model (an encoder in evaluation mode) has them.
    """
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]), reverse=True)
    parts: dict[str, list[Tensor]] = {}
    config = model.config
    hops = config.num_hops if hasattr(config, "num_hops") and config.has_attention else 1
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Encoding", delay=1):
        batch = tokenizer(
            [texts[row] for row in order[start : start + batch_size]],
            padding=True,
            truncation=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        ).to(model.device)
        counts = batch["attention_mask"].bool() & ~batch.pop("special_tokens_mask").bool()
        outputs = model(**batch, output_hidden_states=True)
        states = outputs.hidden_states
        weights = (counts / counts.sum(1, keepdim=True).clamp(min=1)).unsqueeze(-1)
        found = {f"layer {i}": (layer.float() * weights).sum(1) for i, layer in enumerate(states)}
        if (embedding := outputs.get("sentence_embedding")) is not None:
            rows = embedding.float().chunk(hops, 1)
            found |= {f"hop {i + 1}": row for i, row in enumerate(rows) if hops > 1}
            found["sentence"] = embedding.float()
        for name, vectors in found.items():
            parts.setdefault(name, []).append(vectors.cpu())
    place = torch.tensor(order).argsort()
    return {name: torch.cat(vectors)[place] for name, vectors in parts.items()}


def nearest_neighbour_accuracy(
    source: Tensor, target: Tensor, shift: str = "other", block: int = 512
) -> float:
    """Return the share of source rows (N, H) whose nearest target row, in L2, has the same number.

    Row i of the target (N, H) translates row i of the source. The `shift`, the mean of target minus
    source, is added to a source row first: over all pairs (`same`, as in the paper), over the half
    without the row (`other`, which leaks nothing), or `none`. `block` source rows are compared at
    once. Raises ValueError if there are fewer than two pairs.
    """
    if len(source) < 2:
        raise ValueError(f"there are {len(source)} pairs; give at least 2")
    source, target = source.double(), target.double()
    difference = target - source
    if shift == "same":
        source = source + difference.mean(0)
    elif shift == "other":
        is_odd = (torch.arange(len(source)) % 2 == 1).unsqueeze(1)
        source = source + torch.where(is_odd, difference[::2].mean(0), difference[1::2].mean(0))
    right = 0
    for start in range(0, len(source), block):
        nearest = torch.cdist(source[start : start + block], target).min(1).indices
        right += int((nearest == torch.arange(start, start + len(nearest))).sum())
    return right / len(source)


def accuracy_by_layer(
    source: Mapping[str, Tensor], target: Mapping[str, Tensor]
) -> dict[str, dict[str, list[float]]]:
    """Return the accuracy of `layer_vectors` by layer and shift: to the target, then back."""
    return {
        layer: {
            shift: [
                nearest_neighbour_accuracy(first, second, shift)
                for first, second in ((vectors, target[layer]), (target[layer], vectors))
            ]
            for shift in SHIFTS
        }
        for layer, vectors in source.items()
    }
