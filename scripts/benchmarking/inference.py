"""The parts of the benchmark that predict: the bare forward pass, and what is around it."""

import importlib.util
import itertools
import string
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import pipeline

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.embedding import Embedder

from . import ceilings
from .comparison import Options, Result, compare, describe
from .onnx_runtime import is_installed
from .passes import TOLERANCE, inference_pass
from .settings import CLASSIFIERS, INFERENCE, NUM_LABELS, ON_ONNX_RUNTIME, OURS
from .timing import in_turn, quartiles, speedup
from .workloads import WORKLOADS, batches_of, draw_texts

# Texts in a batch, and batches in a pass: more of the small ones, whose lengths differ most.
BATCHES = {1: 16, 32: 2, 256: 1}
# Padded positions above which a batch is left out: its states alone would fill the memory.
MAX_POSITIONS = 200_000
PIPELINE_BATCH_SIZE = 64


def inference(options: Options, name: str, batch_size: int) -> Result | None:
    """Compare the bare forward pass; None if the batches would be too large.

    Args:
        options: The options of the run.
        name: Of the workload.
        batch_size: Texts in a batch, one of `BATCHES`.
    """
    torch.manual_seed(options.seed)
    drawn = WORKLOADS[name].draw(batch_size * BATCHES[batch_size])
    if batch_size * drawn.max() > MAX_POSITIONS:
        return None
    texts = draw_texts(drawn, options.vocab_size, NUM_LABELS)
    fields = CLASSIFIERS["mlp2000"]
    with_onnx = options.device.type == "cpu" and is_installed()
    settings = INFERENCE + (ON_ONNX_RUNTIME if with_onnx else ())
    comparison = compare(options, settings, texts, batch_size, inference_pass, fields)
    products = ceilings.products(options.product_size, options.device)
    times = in_turn({**comparison.cases, **products}, options.budget, options.device)
    config = options.config(fields)
    flops = ceilings.encoder_flops(config) * sum(len(text) for text, _ in texts)
    flops += ceilings.classifier_flops(config) * len(texts)
    return {
        "workload": name,
        "classifier": "mlp2000",
        "texts": len(texts),
        "batch_size": batch_size,
        "rounds": len(times[INFERENCE[0].name]),
        "settings": describe(comparison, settings, times, flops, options.product_size),
    }


def pipelines(options: Options, num_texts: int) -> Result:
    """Compare pipelines over short texts with the bare forward pass over the same batches.

    Args:
        options: The options of the run.
        num_texts: One, or as many as the list is long.
    """
    tokenizer, texts = _tweets(options, num_texts)
    model = options.model(OURS, CLASSIFIERS["mlp2000"]).eval()
    assert isinstance(model, SelfAttentiveForSequenceClassification)
    return _beside_forward(options, texts, _readers(model, tokenizer, texts))


def embeddings(options: Options, num_texts: int) -> Result:
    """Compare ways to embed short texts with the bare forward pass over the same texts by length.

    Args:
        options: The options of the run.
        num_texts: How many.

    Raises:
        RuntimeError: If they do not give the same.
    """
    tokenizer, texts = _tweets(options, num_texts)
    model: Any = options.model(OURS, {})
    base = model.encoder.eval()
    ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
    batches = batches_of(ids, PIPELINE_BATCH_SIZE, grouped=True, device=base.device)

    @torch.inference_mode()
    def forward() -> None:
        for batch in batches:
            base(batch["input_ids"], batch["attention_mask"])

    readers: dict[str, Callable[[], object]] = {"forward": forward}
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        readers["scripts/embed.py"] = partial(Embedder(folder, device=options.device.type), texts)
        if importlib.util.find_spec("sentence_transformers") is not None:
            from sentence_transformers import SentenceTransformer

            encoder = SentenceTransformer(folder, device=options.device.type)
            readers["SentenceTransformer.encode"] = partial(
                encoder.encode, texts, batch_size=PIPELINE_BATCH_SIZE, show_progress_bar=False
            )
    first, *others = (np.asarray(read()) for name, read in readers.items() if name != "forward")
    if any(np.abs(other - first).max() > TOLERANCE * np.abs(first).max() for other in others):
        raise RuntimeError(f"{', '.join(readers)} do not give the same embeddings")
    return _beside_forward(options, texts, readers)


def _tweets(options: Options, num_texts: int) -> tuple[Any, list[str]]:
    """Return a tokenizer and short texts that it knows every word of."""
    torch.manual_seed(options.seed)
    drawn = WORKLOADS["tweets"].draw(num_texts)
    words = spelled_words(options.vocab_size - 2)  # beside padding and the unknown word
    picks = (torch.randint(len(words), (int(length),)).tolist() for length in drawn)
    texts = [" ".join(words[pick] for pick in text) for text in picks]
    return build_tokenizer([" ".join(words)], vocab_size=options.vocab_size), texts


def _beside_forward(
    options: Options, texts: list[str], readers: dict[str, Callable[[], object]]
) -> Result:
    """Time ways to read some texts in turn, and compare them with the one called forward."""
    times = in_turn(readers, options.budget, options.device)
    return {
        "texts": len(texts),
        "batch_size": min(len(texts), PIPELINE_BATCH_SIZE),
        "rounds": len(times["forward"]),
        "settings": {
            name: {
                "seconds": quartiles(times[name]),
                "times_forward": speedup(times, name, "forward"),
            }
            for name in readers
        },
    }


def _readers(
    model: SelfAttentiveForSequenceClassification, tokenizer: Any, texts: list[str]
) -> dict[str, Callable[[], object]]:
    """Return the ways to read the texts, by name, in batches of the same texts."""
    size = PIPELINE_BATCH_SIZE
    ids = [(torch.tensor(tokenizer(text)["input_ids"]), 0) for text in texts]
    batches = batches_of(ids, size, grouped=False, device=model.device)

    def tokenize_and_forward() -> None:
        for start in range(0, len(texts), size):
            batch = tokenizer(texts[start : start + size], padding=True, return_tensors="pt")
            with torch.inference_mode():
                model(**batch.to(model.device))

    readers: dict[str, Callable[[], object]] = {
        "forward": inference_pass(model, OURS, batches),
        "tokenizer, forward": tokenize_and_forward,
    }
    for task in ("text-classification", "self-attention"):
        read: Any = pipeline(task, model=model, tokenizer=tokenizer, device=model.device)  # type: ignore[call-overload]
        readers[task] = partial(read, texts, batch_size=size)
    return readers


def spelled_words(count: int) -> list[str]:
    """Return different words of three letters or more, which no tokenizer cuts."""
    letters = itertools.chain.from_iterable(
        itertools.product(string.ascii_lowercase, repeat=length) for length in itertools.count(3)
    )
    return ["".join(word) for word in itertools.islice(letters, count)]
