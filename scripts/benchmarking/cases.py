"""The parts of the benchmark: training steps, inference, cost against length, embedding."""

import importlib.util
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

from .equality import TOLERANCE, logit_difference, sample_batch
from .models import (
    CLASSIFIERS,
    DEFAULTS,
    INFERENCE,
    LENGTHS,
    NUM_LABELS,
    ON_ONNX_RUNTIME,
    OURS,
    TRAINING,
    Settings,
    build_model,
)
from .passes import TrainingProcess, inference_pass
from .texts import WORKLOADS, Texts, batches_of, draw_texts, spelled_words
from .timing import (
    TRAINING_FACTOR,
    Case,
    Times,
    in_turn,
    model_flops,
    products,
    quartiles,
    seconds_of,
    speedup,
)

Result = dict[str, Any]

PARTS = ("training", "inference", "lengths", "embedding")
# Texts in a batch of inference, and batches in a pass: more small ones, which differ most.
INFERENCE_BATCHES = {1: 16, 32: 2, 256: 1}
LENGTHS_BATCH_SIZE = 2
EMBEDDING_BATCH_SIZE = 64
NO_DROPOUT = {"embedding_dropout": 0.0, "classifier_dropout": 0.0}


def measure(flags: Namespace) -> Iterator[tuple[str, Result]]:
    """Yield the name of a part and one of its results, as soon as it is measured.

    Args:
        flags: Those of scripts/benchmark.py.

    Raises:
        RuntimeError: If two models that are compared do not compute the same.
    """
    if "training" in flags.only:
        for name in flags.workloads:
            # For documents the classifier is too small a part of a step to be compared.
            for classifier in (None, *(flags.classifiers if name != "documents" else ())):
                yield "training", training(flags, name, classifier)
    if "inference" in flags.only:
        for name in flags.workloads:
            for batch_size in INFERENCE_BATCHES:
                if (name, batch_size) != ("documents", 256):  # it would fill the memory
                    yield "inference", inference(flags, name, batch_size)
    if "lengths" in flags.only:
        for longest in flags.lengths:
            yield "lengths", cost_of_length(flags, longest)
    if "embedding" in flags.only:
        yield "embedding", embedding(flags)


def fields_of(flags: Namespace, classifier: str = "mlp2000") -> dict[str, Any]:
    """Return the fields of the config of a model with this classifier."""
    return {**DEFAULTS, **CLASSIFIERS[classifier], **flags.fields}


def training(flags: Namespace, name: str, classifier: str | None) -> Result:
    """Compare training steps, or with no classifier those of encoder and attention only."""
    workload = WORKLOADS[name]
    torch.manual_seed(flags.seed)
    num_batches = min(workload.num_batches, flags.max_batches)
    texts = _draw(flags, workload.draw(workload.batch_size * num_batches))
    result = {"workload": name, "classifier": classifier, "batch_size": workload.batch_size}
    return result | _training(flags, TRAINING, texts, workload.batch_size, classifier)


def cost_of_length(flags: Namespace, longest: int) -> Result:
    """Compare time and memory of encoder and attention on texts of `longest` tokens to half."""
    torch.manual_seed(flags.seed)
    lengths = longest * (1 + torch.rand(LENGTHS_BATCH_SIZE)) / 2
    lengths[0] = longest
    result = {"longest": longest, "batch_size": LENGTHS_BATCH_SIZE}
    texts = _draw(flags, lengths.long())
    return result | _training(flags, LENGTHS, texts, LENGTHS_BATCH_SIZE, None)


def _training(
    flags: Namespace,
    settings: Sequence[Settings],
    texts: Texts,
    batch_size: int,
    classifier: str | None,
) -> Result:
    fields = fields_of(flags, classifier or "mlp2000")
    differences = _differences(flags, settings, fields)
    with ExitStack() as until_measured:
        processes = {}
        for one in settings:
            batches = batches_of(texts, batch_size, grouped=one.grouped)
            process = TrainingProcess(
                one,
                fields,
                batches,
                whole=classifier is not None,
                device=flags.device,
                seed=flags.seed,
                threads=flags.threads,
            )
            processes[one.name] = until_measured.enter_context(process)
        times = _times(flags, {name: one.seconds for name, one in processes.items()})
        peaks = {name: one.peak_mib() for name, one in processes.items()}
    flops = TRAINING_FACTOR * _flops(fields, texts, classifier=classifier is not None)
    result = describe(settings, times, texts, flops, flags.product_size)
    for name, row in result["settings"].items():
        row |= {"peak_mib": peaks[name], "logit_difference": differences[name]}
    return result


def inference(flags: Namespace, name: str, batch_size: int) -> Result:
    """Compare the bare forward pass with the MLP of 2,000 units."""
    torch.manual_seed(flags.seed)
    texts = _draw(flags, WORKLOADS[name].draw(batch_size * INFERENCE_BATCHES[batch_size]))
    fields = fields_of(flags) | NO_DROPOUT  # as the models compared, so that one export serves both
    has_onnx = flags.device == "cpu" and all(map(importlib.util.find_spec, NEEDED))
    settings = INFERENCE + (ON_ONNX_RUNTIME if has_onnx else ())
    differences = _differences(flags, settings, fields)
    batches = batches_of(texts, batch_size, device=flags.device)
    cases: dict[str, Case] = {}
    for one in settings:
        model = build_model(one, fields, flags.device, flags.seed)
        cases[one.name] = partial(seconds_of, inference_pass(model, batches), flags.device)
    flops = _flops(fields, texts, classifier=True)
    result = describe(settings, _times(flags, cases), texts, flops, flags.product_size)
    for one in settings:
        result["settings"][one.name]["logit_difference"] = differences[one.name]
    return {"workload": name, "classifier": "mlp2000", "batch_size": batch_size} | result


def embedding(flags: Namespace) -> Result:
    """Compare ways to embed short texts with the bare forward pass over the same texts.

    Raises:
        RuntimeError: If their embeddings differ.
    """
    fields = fields_of(flags)
    torch.manual_seed(flags.seed)
    lengths = WORKLOADS["tweets"].draw(flags.num_texts)
    words = spelled_words(fields["vocab_size"] - 2)  # without padding and the unknown word
    picks = (torch.randint(len(words), (int(length),)).tolist() for length in lengths)
    texts = [" ".join(words[pick] for pick in text) for text in picks]
    tokenizer = build_tokenizer([" ".join(words)], vocab_size=fields["vocab_size"])
    model: Any = build_model(OURS, fields, flags.device, flags.seed)
    base = model.encoder.eval()
    ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
    batches = batches_of(ids, EMBEDDING_BATCH_SIZE, grouped=True, device=flags.device)

    @torch.inference_mode()
    def forward() -> None:
        for batch in batches:
            base(batch["input_ids"], batch["attention_mask"])

    ways: dict[str, Callable[[], Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        ways["scripts/embed.py"] = partial(Embedder(folder, device=flags.device), texts)
        if importlib.util.find_spec("sentence_transformers") is not None:
            from sentence_transformers import SentenceTransformer

            encode = SentenceTransformer(folder, device=flags.device).encode
            ways["SentenceTransformer.encode"] = partial(
                encode, texts, batch_size=EMBEDDING_BATCH_SIZE, show_progress_bar=False
            )
    first, *others = (np.asarray(embed()) for embed in ways.values())
    if any(np.abs(other - first).max() > TOLERANCE * np.abs(first).max() for other in others):
        raise RuntimeError(f"the embeddings by {' and '.join(ways)} differ")
    ways = {"forward": forward, **ways}
    cases = {name: partial(seconds_of, way, flags.device) for name, way in ways.items()}
    times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {
        name: {"seconds": quartiles(taken), "times_forward": speedup(times, name, "forward")}
        for name, taken in times.items()
    }
    facts = {"texts": len(texts), "batch_size": EMBEDDING_BATCH_SIZE}
    return {**facts, "rounds": len(times["forward"]), "settings": rows}


def _draw(flags: Namespace, lengths: torch.Tensor) -> Texts:
    return draw_texts(lengths, fields_of(flags)["vocab_size"], NUM_LABELS)


def _differences(
    flags: Namespace, settings: Sequence[Settings], fields: Mapping[str, Any]
) -> dict[str, float]:
    """Check that all settings compute the same; return the differences of their logits."""
    fields = {**fields, **NO_DROPOUT}
    build = partial(build_model, fields=fields, device=flags.device, seed=flags.seed)
    baseline = build(settings[0])
    sample = sample_batch(fields["vocab_size"], NUM_LABELS, flags.device)
    return {one.name: logit_difference(build(one), one, baseline, sample) for one in settings}


def _times(flags: Namespace, cases: Mapping[str, Case]) -> Times:
    ceilings = products(flags.product_size, flags.device)
    return in_turn({**cases, **ceilings}, flags.rounds, flags.seconds)


def _flops(fields: Mapping[str, Any], texts: Texts, *, classifier: bool) -> int:
    num_tokens = sum(len(text) for text, _ in texts)
    return model_flops(SelfAttentiveConfig(**fields), num_tokens, len(texts), classifier=classifier)


def describe(
    settings: Sequence[Settings], times: Times, texts: Texts, flops: int, product_size: int
) -> Result:
    """Return speed-ups over the first settings, rates, and shares of the ceiling.

    Args:
        settings: What was compared; the first is the baseline.
        times: Of the settings and of the matrix products.
        texts: The texts of one pass.
        flops: The operations of one pass.
        product_size: Rows of the matrix products.
    """
    tokens = sum(len(text) for text, _ in texts)
    rows: dict[str, Result] = {}
    for one in settings:
        seconds = times[one.name]
        rows[one.name] = {
            "seconds": quartiles(seconds),
            "tokens_per_second": quartiles([tokens / value for value in seconds]),
            "speedup": speedup(times, settings[0].name, one.name),
        }
        product = times.get(f"product, {one.dtype}")  # none for int8
        if product:
            ratios = zip(product, seconds, strict=True)
            shares = [flops * p / (2 * product_size**3 * s) for p, s in ratios]
            rows[one.name]["share_of_ceiling"] = quartiles(shares)
    rounds = len(times[settings[0].name])
    return {"texts": len(texts), "rounds": rounds, "flops": flops, "settings": rows}
