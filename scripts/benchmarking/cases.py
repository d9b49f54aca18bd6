"""The parts of the benchmark: training steps, inference, cost against length, embedding, others."""

import importlib.util
import itertools
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch

from sase_hf import SelfAttentiveConfig, build_tokenizer
from sase_hf.embedding import Embedder
from sase_hf.serving.onnx_export import NEEDED

from .corpora import corpora
from .epoch import epoch
from .lstm import lstm
from .models import (
    INFERENCE,
    LENGTHS,
    MODELS,
    NUM_LABELS,
    ON_ONNX_RUNTIME,
    OURS,
    PAPER,
    TOLERANCE,
    TRAINING,
    Settings,
    build_equal_models,
    build_model,
)
from .passes import inference_pass, peak_mib, seconds_of_training, training_process
from .ranking import ranking
from .start import start
from .texts import WORKLOADS, Texts, batches_of, draw_texts, made_words
from .timing import (
    TRAINING_FACTOR,
    Case,
    Times,
    describe,
    in_turn,
    model_flops,
    products,
    quartiles,
    seconds_of,
    speedup,
)
from .translation import translation

Result = dict[str, Any]

# Texts in a batch of inference, and batches in a pass: more small ones, which differ most.
INFERENCE_BATCHES = {1: 16, 32: 2, 256: 1}
LENGTHS_BATCH_SIZE = 2
LONGEST_OF_PLAIN = 4000  # tokens; its time grows with the square
EMBEDDING_BATCH_SIZE = 64


def training(flags: Namespace) -> Iterator[Result]:
    """Compare training steps, and those of encoder and attention alone (model None)."""
    for name in flags.workloads:
        workload = WORKLOADS[name]
        size, num_batches = workload.batch_size, min(workload.num_batches, flags.max_batches)
        # For documents the classifier is too small a part of a step to be compared.
        for model in (None, *(flags.models if name != "documents" else ())):
            torch.manual_seed(flags.seed)
            texts = _draw(flags, workload.draw(size * num_batches))
            facts = {"workload": name, "model": model, "batch_size": size}
            yield facts | _compare_training(flags, TRAINING, texts, size, model)


def cost_of_length(flags: Namespace) -> Iterator[Result]:
    """Compare time and memory of encoder and attention on texts of half a length to all of it."""
    for longest in flags.lengths:
        torch.manual_seed(flags.seed)
        lengths = longest * (1 + torch.rand(LENGTHS_BATCH_SIZE)) / 2
        lengths[0] = longest
        texts = _draw(flags, lengths.long())
        facts = {"longest": longest, "batch_size": LENGTHS_BATCH_SIZE}
        has_plain = longest <= LONGEST_OF_PLAIN
        ways = LENGTHS if has_plain else LENGTHS[1:]
        result = _compare_training(flags, ways, texts, LENGTHS_BATCH_SIZE, None)
        for row in () if has_plain else result["settings"].values():
            del row["speedup"], row["logit_difference"]  # both are against the plain one
        yield facts | result


def _compare_training(
    flags: Namespace,
    settings: Sequence[Settings],
    texts: Texts,
    batch_size: int,
    model: str | None,
) -> Result:
    fields = fields_of(flags, model or "mlp2000")
    _, differences = build_equal_models(settings, fields, flags.device, flags.seed)
    with ExitStack() as until_measured:
        processes = {}
        for one in settings:
            batches = batches_of(texts, batch_size, grouped=one.grouped)
            process = training_process(one, fields, batches, flags, model is not None)
            processes[one.name] = until_measured.enter_context(process)

        def seconds(name: str, repeats: int) -> float:
            return processes[name].submit(seconds_of_training, repeats).result()

        times = _times(flags, {name: partial(seconds, name) for name in processes})
        peaks = {name: one.submit(peak_mib).result() for name, one in processes.items()}
    flops = TRAINING_FACTOR * _flops(fields, texts, classifier=model is not None)
    result = describe(settings, times, texts, flops, flags.product_size)
    for name, row in result["settings"].items():
        row["peak_mib"] = peaks[name]
        if name in differences:
            row["logit_difference"] = differences[name]
    return result


def inference(flags: Namespace) -> Iterator[Result]:
    """Compare the bare forward pass of each model."""
    has_onnx = flags.device == "cpu" and all(map(importlib.util.find_spec, NEEDED))
    settings = INFERENCE + (ON_ONNX_RUNTIME if has_onnx else ())
    for model in flags.models:
        fields = fields_of(flags, model)
        models, differences = build_equal_models(settings, fields, flags.device, flags.seed)
        for name, (size, count) in itertools.product(flags.workloads, INFERENCE_BATCHES.items()):
            if (name, size) == ("documents", 256):  # it would fill the memory
                continue
            torch.manual_seed(flags.seed)
            texts = _draw(flags, WORKLOADS[name].draw(size * count))
            batches = batches_of(texts, size, device=flags.device)
            passes = {one: inference_pass(built, batches) for one, built in models.items()}
            times = _times(
                flags, {one: partial(seconds_of, run, flags.device) for one, run in passes.items()}
            )
            flops = _flops(fields, texts, classifier=True)
            result = describe(settings, times, texts, flops, flags.product_size)
            for one, difference in differences.items():
                result["settings"][one]["logit_difference"] = difference
            yield {"workload": name, "model": model, "batch_size": size} | result


def embedding(flags: Namespace) -> Iterator[Result]:
    """Compare ways to embed short texts with the bare forward pass over the same texts."""
    fields = fields_of(flags)
    torch.manual_seed(flags.seed)
    words = made_words(fields["vocab_size"] - 2)  # without padding and the unknown word
    texts = [
        " ".join(words[pick] for pick in torch.randint(len(words), (int(length),)).tolist())
        for length in WORKLOADS["tweets"].draw(flags.num_texts)
    ]
    tokenizer = build_tokenizer([" ".join(words)], vocab_size=fields["vocab_size"])
    model: Any = build_model(OURS, fields, flags.device, flags.seed)
    base = model.encoder.eval()
    ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
    batches = batches_of(ids, EMBEDDING_BATCH_SIZE, grouped=True, device=flags.device)
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        ours = partial(Embedder(folder, device=flags.device), texts)
        ways: dict[str, Callable[[], Any]] = {"scripts/embed.py": ours}
        if importlib.util.find_spec("sentence_transformers") is not None:
            from sentence_transformers import SentenceTransformer

            encode = SentenceTransformer(folder, device=flags.device).encode
            ways["SentenceTransformer.encode"] = partial(
                encode, texts, batch_size=EMBEDDING_BATCH_SIZE, show_progress_bar=False
            )
    first, *others = (np.asarray(embed()) for embed in ways.values())
    if any(np.abs(other - first).max() > TOLERANCE * np.abs(first).max() for other in others):
        raise RuntimeError(f"the embeddings by {' and '.join(ways)} differ")
    ways = {"forward": inference_pass(base, batches), **ways}
    cases = {name: partial(seconds_of, way, flags.device) for name, way in ways.items()}
    times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {
        name: {"seconds": quartiles(taken), "times_forward": speedup(times, name, "forward")}
        for name, taken in times.items()
    }
    facts = {"texts": len(texts), "batch_size": EMBEDDING_BATCH_SIZE}
    yield {**facts, "rounds": len(times["forward"]), "settings": rows}


# Each yields its results as soon as they are measured; all raise RuntimeError if two models that
# are compared do not compute the same.
PARTS = {
    "training": training,
    "inference": inference,
    "lengths": cost_of_length,
    "embedding": embedding,
    "translation": translation,
    "ranking": ranking,
    "start": start,
    "corpora": corpora,
    "lstm": lstm,
    "epoch": epoch,
}


def fields_of(flags: Namespace, model: str = "mlp2000") -> dict[str, Any]:
    """Return the fields of the config of one of `MODELS`."""
    return {**PAPER, **MODELS[model], **flags.fields}


def _draw(flags: Namespace, lengths: torch.Tensor) -> Texts:
    return draw_texts(lengths, fields_of(flags)["vocab_size"], NUM_LABELS)


def _times(flags: Namespace, cases: Mapping[str, Case]) -> Times:
    ceilings = products(flags.product_size, flags.device)
    return in_turn({**cases, **ceilings}, flags.rounds, flags.seconds)


def _flops(fields: Mapping[str, Any], texts: Texts, *, classifier: bool) -> int:
    num_tokens = sum(len(text) for text, _ in texts)
    return model_flops(SelfAttentiveConfig(**fields), num_tokens, len(texts), classifier=classifier)
