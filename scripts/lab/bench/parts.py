"""The parts of the benchmark; each yields its results as soon as they are measured."""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sase_hf.embedding import Embedder
from sase_hf.utils.loading import load_encoder

from . import models
from .commands import commands, save_model
from .pages import pages
from .passes import Pass, compare, read_all
from .texts import WORDS, WORKLOADS, Draw, Texts, batches_of, draw_texts
from .timing import compared, in_turn, seconds_of

Result = dict[str, Any]

# Texts in a batch of inference, and batches in a pass: more small ones, which differ most.
INFERENCE_BATCHES = {1: 16, 32: 2, 256: 1}
LONGEST_OF_PLAIN = 4000  # tokens; its time grows with the square


def training(flags: Namespace) -> Iterator[Result]:
    """Compare training steps of whole models, and of encoder and attention alone (model None)."""
    for name in flags.workloads:
        size, num_batches, draw = WORKLOADS[name]
        texts = _draw(flags, draw, size * min(num_batches, flags.max_batches))
        # The classifier is too small a part of a step on documents to be compared.
        for model in (None, *(flags.models if name != "documents" else ())):
            kind: Pass = "step" if model else "encoder"
            result = compare(flags, models.TRAINING, fields_of(flags, model), texts, size, kind)
            yield {"workload": name, "model": model, **result}


def lengths(flags: Namespace, batch_size: int = 2) -> Iterator[Result]:
    """Compare time and memory of encoder and attention on texts from half a length to it."""

    def draw(count: int) -> Tensor:
        return longest * torch.cat([torch.ones(1), (1 + torch.rand(count)[1:]) / 2])

    for longest in flags.lengths:
        texts = _draw(flags, draw, batch_size)
        ways = models.LENGTHS if longest <= LONGEST_OF_PLAIN else models.LENGTHS[1:]
        result = compare(flags, ways, fields_of(flags), texts, batch_size, "encoder")
        yield {"longest": longest, **result}


def inference(flags: Namespace) -> Iterator[Result]:
    """Compare the bare forward pass of each model."""
    for model, name in product(flags.models, flags.workloads):
        for size, count in INFERENCE_BATCHES.items():
            if (name, size) != ("documents", 256):  # it would fill the memory
                texts = _draw(flags, WORKLOADS[name][2], size * count)
                fields = fields_of(flags, model)
                result = compare(flags, models.INFERENCE, fields, texts, size, "forward")
                yield {"workload": name, "model": model, **result}


def embedding(flags: Namespace, batch_size: int = 64) -> Iterator[Result]:
    """Compare ways to embed short texts with the bare forward pass over the same texts."""
    from sentence_transformers import SentenceTransformer  # of the extra `test`

    drawn = _draw(flags, WORKLOADS["tweets"][2], flags.num_texts)
    texts = [" ".join(WORDS[pick % len(WORDS)] for pick in ids.tolist()) for ids, _ in drawn]
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, flags.seed, **fields_of(flags))
        encoder, tokenizer = load_encoder(folder)
        ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
        batches = batches_of(ids, batch_size, grouped=True, device=flags.device)
        ours = partial(Embedder(folder, device=flags.device), texts)
        encode = SentenceTransformer(folder, device=flags.device).encode
        theirs = partial(encode, texts, batch_size=batch_size, show_progress_bar=False)
    first, second = np.asarray(ours()), np.asarray(theirs())
    if np.abs(second - first).max() > models.TOLERANCE * np.abs(first).max():
        raise RuntimeError("the embeddings by scripts/embed.py and SentenceTransformer differ")
    forward = partial(read_all, encoder.to(flags.device), batches)
    ways: dict[str, Callable[[], Any]] = {"forward": forward, "scripts/embed.py": ours}
    ways["SentenceTransformer.encode"] = theirs
    cases = {name: partial(seconds_of, way, flags.device) for name, way in ways.items()}
    times = in_turn(cases, flags.rounds, flags.seconds)
    result = compared(times, "forward", "times_forward")
    yield {"texts": len(texts), "batch_size": batch_size, **result}


def fields_of(flags: Namespace, model: str | None = None) -> dict[str, Any]:
    """Return the fields of the config of one of `MODELS`, by default the first."""
    return {**models.PAPER, **models.MODELS[model or "mlp2000"], **flags.fields}


def _draw(flags: Namespace, draw: Draw, count: int) -> Texts:
    torch.manual_seed(flags.seed)
    return draw_texts(draw(count), fields_of(flags)["vocab_size"], models.NUM_LABELS)


PARTS = {p.__name__: p for p in (training, lengths, inference, embedding, commands, pages)}
