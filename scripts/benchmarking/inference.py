"""The parts of the benchmark that predict: the bare forward pass, and pipelines around it."""

import itertools
import string
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import pipeline

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer

from . import ceilings
from .comparison import Options, Result, compare, describe
from .onnx_runtime import is_installed
from .passes import inference_pass
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
    torch.manual_seed(options.seed)
    drawn = WORKLOADS["tweets"].draw(num_texts)
    words = spelled_words(options.vocab_size - 2)  # beside padding and the unknown word
    picks = (torch.randint(len(words), (int(length),)).tolist() for length in drawn)
    texts = [" ".join(words[pick] for pick in text) for text in picks]
    tokenizer = build_tokenizer([" ".join(words)], vocab_size=options.vocab_size)
    model = options.model(OURS, CLASSIFIERS["mlp2000"]).eval()
    assert isinstance(model, SelfAttentiveForSequenceClassification)
    times = in_turn(_readers(model, tokenizer, texts), options.budget, options.device)
    names = [name for name in times if name != "forward"]
    return {
        "texts": num_texts,
        "batch_size": min(num_texts, PIPELINE_BATCH_SIZE),
        "rounds": len(times["forward"]),
        "settings": {
            name: {
                "seconds": quartiles(times[name]),
                "times_forward": speedup(times, name, "forward"),
            }
            for name in ["forward", *names]
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
