"""The parts of the benchmark: training steps, inference, cost against length, embedding."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
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
from .passes import Training, TrainingProcess, inference_pass
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


@dataclass(frozen=True)
class Options:
    """What is measured, and for how long; the flags of scripts/benchmark.py.

    Attributes:
        workloads: Names in `WORKLOADS`.
        classifiers: Names in `CLASSIFIERS`.
        lengths: Tokens of the longest text, for the cost against length.
        num_texts: Texts to embed.
        rounds: Rounds of each comparison.
        seconds: After this time a comparison begins no further round.
        device: Where everything runs.
        threads: CPU threads.
        seed: The seed of weights and texts.
        fields: Fields of the config that replace the paper's sizes.
        product_size: Rows of the matrices whose product is the ceiling.
        max_batches: Batches of a training pass.
    """

    workloads: Sequence[str] = tuple(WORKLOADS)
    classifiers: Sequence[str] = tuple(CLASSIFIERS)
    lengths: Sequence[int] = (250, 500, 1000, 2000, 4000)
    num_texts: int = 10_000
    rounds: int = 7
    seconds: float = 60.0
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    product_size: int = 4096
    max_batches: int = 8

    def fields_of(self, classifier: str) -> dict[str, Any]:
        """Return the fields of the config of a model with this classifier."""
        return {**DEFAULTS, **CLASSIFIERS[classifier], **self.fields}

    def draw(self, lengths: torch.Tensor) -> Texts:
        """Draw texts of these lengths."""
        return draw_texts(lengths, self.fields_of("mlp2000")["vocab_size"], NUM_LABELS)


def measure(options: Options, parts: Sequence[str]) -> Iterator[tuple[str, Result]]:
    """Yield the name of a part and one of its results, as soon as it is measured.

    Args:
        options: What is measured.
        parts: Names in `PARTS`.

    Raises:
        RuntimeError: If two models that are compared do not compute the same.
    """
    if "training" in parts:
        for name in options.workloads:
            # For documents the classifier is too small a part of a step to be compared.
            for classifier in (None, *(options.classifiers if name != "documents" else ())):
                yield "training", training(options, name, classifier)
    if "inference" in parts:
        for name in options.workloads:
            for batch_size in INFERENCE_BATCHES:
                if (name, batch_size) != ("documents", 256):  # it would fill the memory
                    yield "inference", inference(options, name, batch_size)
    if "lengths" in parts:
        for longest in options.lengths:
            yield "lengths", cost_of_length(options, longest)
    if "embedding" in parts:
        yield "embedding", embedding(options)


def training(options: Options, name: str, classifier: str | None) -> Result:
    """Compare training steps.

    Args:
        options: What is measured.
        name: The name of the workload.
        classifier: With this classifier and the optimizer; None for encoder and attention only.
    """
    workload = WORKLOADS[name]
    torch.manual_seed(options.seed)
    num_batches = min(workload.num_batches, options.max_batches)
    texts = options.draw(workload.draw(workload.batch_size * num_batches))
    result = {"workload": name, "classifier": classifier, "batch_size": workload.batch_size}
    return result | _training(options, TRAINING, texts, workload.batch_size, classifier)


def cost_of_length(options: Options, longest: int) -> Result:
    """Compare time and memory of encoder and attention on one batch of long texts.

    Args:
        options: What is measured.
        longest: Tokens of one text; the others have half of that or more.
    """
    torch.manual_seed(options.seed)
    lengths = longest * (1 + torch.rand(LENGTHS_BATCH_SIZE)) / 2
    lengths[0] = longest
    texts = options.draw(lengths.long())
    result = {"longest": longest, "batch_size": LENGTHS_BATCH_SIZE}
    return result | _training(options, LENGTHS, texts, LENGTHS_BATCH_SIZE, None)


def _training(
    options: Options,
    settings: Sequence[Settings],
    texts: Texts,
    batch_size: int,
    classifier: str | None,
) -> Result:
    fields = options.fields_of(classifier or "mlp2000")
    differences = _differences(options, settings, fields)
    with ExitStack() as until_measured:
        processes = {}
        for one in settings:
            process = TrainingProcess(
                Training(
                    one,
                    fields,
                    batches_of(texts, batch_size, grouped=one.grouped),
                    classifier is not None,
                    options.device,
                    options.seed,
                    options.threads,
                )
            )
            processes[one.name] = until_measured.enter_context(process)
        times = _times(options, {name: one.seconds for name, one in processes.items()})
        peaks = {name: one.peak_mib() for name, one in processes.items()}
    flops = TRAINING_FACTOR * _flops(fields, texts, classifier=classifier is not None)
    result = describe(settings, times, texts, flops, options.product_size)
    for name, row in result["settings"].items():
        row["peak_mib"] = peaks[name]
        row["logit_difference"] = differences[name]
    return result


def inference(options: Options, name: str, batch_size: int) -> Result:
    """Compare the bare forward pass with the MLP of 2,000 units.

    Args:
        options: What is measured.
        name: The name of the workload.
        batch_size: Texts in a batch, one of `INFERENCE_BATCHES`.
    """
    torch.manual_seed(options.seed)
    texts = options.draw(WORKLOADS[name].draw(batch_size * INFERENCE_BATCHES[batch_size]))
    fields = options.fields_of("mlp2000")
    has_onnx = options.device == "cpu" and all(map(importlib.util.find_spec, NEEDED))
    settings = INFERENCE + (ON_ONNX_RUNTIME if has_onnx else ())
    differences = _differences(options, settings, fields)
    batches = batches_of(texts, batch_size, device=options.device)
    cases: dict[str, Case] = {}
    for one in settings:
        model = build_model(one, fields, options.device, options.seed)
        cases[one.name] = partial(seconds_of, inference_pass(model, batches), options.device)
    flops = _flops(fields, texts, classifier=True)
    times = _times(options, cases)
    result = describe(settings, times, texts, flops, options.product_size)
    for one in settings:
        result["settings"][one.name]["logit_difference"] = differences[one.name]
    return {"workload": name, "classifier": "mlp2000", "batch_size": batch_size} | result


def embedding(options: Options) -> Result:
    """Compare ways to embed short texts with the bare forward pass over the same texts.

    Args:
        options: What is measured.

    Raises:
        RuntimeError: If their embeddings differ.
    """
    fields = options.fields_of("mlp2000")
    torch.manual_seed(options.seed)
    lengths = WORKLOADS["tweets"].draw(options.num_texts)
    words = spelled_words(fields["vocab_size"] - 2)  # without padding and the unknown word
    picks = (torch.randint(len(words), (int(length),)).tolist() for length in lengths)
    texts = [" ".join(words[pick] for pick in text) for text in picks]
    tokenizer = build_tokenizer([" ".join(words)], vocab_size=fields["vocab_size"])
    model: Any = build_model(OURS, fields, options.device, options.seed)
    base = model.encoder.eval()
    ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
    batches = batches_of(ids, EMBEDDING_BATCH_SIZE, grouped=True, device=options.device)

    @torch.inference_mode()
    def forward() -> None:
        for batch in batches:
            base(batch["input_ids"], batch["attention_mask"])

    ways: dict[str, Callable[[], Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        ways["scripts/embed.py"] = partial(Embedder(folder, device=options.device), texts)
        if importlib.util.find_spec("sentence_transformers") is not None:
            from sentence_transformers import SentenceTransformer

            encode = SentenceTransformer(folder, device=options.device).encode
            ways["SentenceTransformer.encode"] = partial(
                encode, texts, batch_size=EMBEDDING_BATCH_SIZE, show_progress_bar=False
            )
    first, *others = (np.asarray(embed()) for embed in ways.values())
    if any(np.abs(other - first).max() > TOLERANCE * np.abs(first).max() for other in others):
        raise RuntimeError(f"the embeddings by {' and '.join(ways)} differ")
    ways = {"forward": forward, **ways}
    cases = {name: partial(seconds_of, way, options.device) for name, way in ways.items()}
    times = in_turn(cases, options.rounds, options.seconds)
    return {
        "texts": len(texts),
        "batch_size": EMBEDDING_BATCH_SIZE,
        "rounds": len(times["forward"]),
        "settings": {
            name: {
                "seconds": quartiles(times[name]),
                "times_forward": speedup(times, name, "forward"),
            }
            for name in ways
        },
    }


def _differences(
    options: Options, settings: Sequence[Settings], fields: Mapping[str, Any]
) -> dict[str, float]:
    """Check that all settings compute the same; return the differences of their logits."""
    device, seed = options.device, options.seed
    fields = {**fields, "embedding_dropout": 0.0, "classifier_dropout": 0.0}
    baseline = build_model(settings[0], fields, device, seed)
    sample = sample_batch(fields["vocab_size"], NUM_LABELS, device)
    return {
        one.name: logit_difference(build_model(one, fields, device, seed), one, baseline, sample)
        for one in settings
    }


def _times(options: Options, cases: Mapping[str, Case]) -> Times:
    ceilings = products(options.product_size, options.device)
    return in_turn({**cases, **ceilings}, options.rounds, options.seconds)


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
