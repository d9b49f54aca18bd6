"""The parts of the benchmark that train: steps, optimisers, memory and lengths."""

import torch

from . import ceilings
from .comparison import Options, Result, Texts, compare, describe
from .memory import MemoryCase, peak_mib
from .passes import encoder_pass, training_pass
from .settings import (
    CLASSIFIERS,
    ENCODER,
    LENGTHS,
    NUM_LABELS,
    ON_CUDA,
    OPTIMISERS,
    OURS_GROUPED,
    PLAIN_GROUPED,
    WHOLE,
    Settings,
)
from .timing import in_turn, quartiles
from .workloads import WORKLOADS, Batch, batches_of, draw_texts

# Texts in the one batch for the cost against length.
LENGTHS_BATCH_SIZE = 2


def steps(options: Options, name: str, classifier: str | None) -> Result:
    """Compare training steps.

    Args:
        options: The options of the run.
        name: Of the workload.
        classifier: With this classifier and the optimiser; None for encoder and attention alone.
    """
    workload, fields = WORKLOADS[name], CLASSIFIERS[classifier or "mlp2000"]
    settings: tuple[Settings, ...] = WHOLE if classifier else ENCODER
    prepare = training_pass if classifier else encoder_pass
    texts = options.texts(workload)
    if len(texts) == workload.batch_size:  # one batch cannot be grouped
        settings = tuple(one for one in settings if one not in (PLAIN_GROUPED, OURS_GROUPED))
    comparison = compare(options, settings, texts, workload.batch_size, prepare, fields)
    products = ceilings.products(options.product_size, options.device)
    times = in_turn({**comparison.cases, **products}, options.budget, options.device)
    flops = training_flops(options, texts, classifier)
    return {
        "workload": name,
        "classifier": classifier,
        "texts": len(texts),
        "batch_size": workload.batch_size,
        "rounds": len(times[settings[0].name]),
        "flops": flops,
        "settings": describe(comparison, settings, times, flops, options.product_size),
    }


def training_flops(options: Options, texts: Texts, classifier: str | None) -> int:
    """Return the operations of forward and backward pass on the real tokens of some texts."""
    config = options.config(CLASSIFIERS[classifier or "mlp2000"])
    flops = ceilings.encoder_flops(config) * sum(len(text) for text, _ in texts)
    if classifier:
        flops += ceilings.classifier_flops(config) * len(texts)
    return ceilings.TRAINING_FACTOR * flops


def optimisers(options: Options) -> Result:
    """Compare what helps a whole training step, each alone, at the sizes for Age."""
    settings = OPTIMISERS + (ON_CUDA if options.device.type == "cuda" else ())
    workload, fields = WORKLOADS["tweets"], CLASSIFIERS["mlp2000"]
    texts = options.texts(workload)[: 2 * workload.batch_size]
    comparison = compare(options, settings, texts, workload.batch_size, training_pass, fields)
    stream = ceilings.stream(options.stream_bytes, options.device)
    times = in_turn({**comparison.cases, "stream": stream}, options.budget, options.device)
    flops = training_flops(options, texts, "mlp2000")
    weights = sum(weight.numel() for weight in options.model(settings[0], fields).parameters())
    updates = len(comparison.batches[settings[0].name])
    moved = updates * ceilings.ADAM_TRANSFERS * 4 * weights
    bandwidth = [
        ceilings.STREAM_TRANSFERS * options.stream_bytes / value for value in times["stream"]
    ]
    return {
        "workload": workload.name,
        "classifier": "mlp2000",
        "texts": len(texts),
        "batch_size": workload.batch_size,
        "rounds": len(times[settings[0].name]),
        "weights": weights,
        "adam_seconds_at_bandwidth": quartiles([moved / value for value in bandwidth]),
        "settings": describe(comparison, settings, times, flops, options.product_size),
    }


def memory(options: Options, name: str, whole: bool) -> Result:
    """Compare the peak memory of a step on the first batch, encoder alone or whole.

    Args:
        options: The options of the run.
        name: Of the workload.
        whole: With classifier and optimiser.
    """
    workload = WORKLOADS[name]
    texts = options.texts(workload)[: workload.batch_size]
    batches = batches_of(texts, workload.batch_size, grouped=False, device=torch.device("cpu"))
    return {
        "workload": name,
        "classifier": "mlp2000" if whole else None,
        "batch_size": len(texts),
        "settings": {
            name: {"peak_mib": value}
            for name, value in _peaks(options, batches, whole=whole).items()
        },
    }


def _peaks(options: Options, batches: list[Batch], *, whole: bool) -> dict[str, float]:
    settings = WHOLE if whole else LENGTHS
    fields = {**CLASSIFIERS["mlp2000"], **options.fields}
    common = (batches, whole, options.device.type, options.seed, torch.get_num_threads())
    return {one.name: peak_mib(MemoryCase(one, fields, *common)) for one in settings}


def lengths(options: Options, longest: int) -> Result:
    """Compare time and peak memory of encoder and attention on a few texts of one size.

    Args:
        options: The options of the run.
        longest: Tokens of one text; the others have from half of it to all of it.
    """
    torch.manual_seed(options.seed)
    drawn = longest * (1 + torch.rand(LENGTHS_BATCH_SIZE)) / 2
    drawn[0] = longest
    texts = draw_texts(drawn.long(), options.vocab_size, NUM_LABELS)
    fields = CLASSIFIERS["mlp2000"]
    comparison = compare(options, LENGTHS, texts, len(texts), encoder_pass, fields)
    products = ceilings.products(options.product_size, options.device)
    times = in_turn({**comparison.cases, **products}, options.budget, options.device)
    flops = training_flops(options, texts, None)
    described = describe(comparison, LENGTHS, times, flops, options.product_size)
    batches = batches_of(texts, len(texts), grouped=False, device=torch.device("cpu"))
    for name, value in _peaks(options, batches, whole=False).items():
        described[name]["peak_mib"] = value
    return {
        "longest": longest,
        "batch_size": len(texts),
        "rounds": len(times[LENGTHS[0].name]),
        "settings": described,
    }


def ceiling(options: Options) -> Result:
    """Measure what the machine can do: matrix products, and the bandwidth of its memory."""
    size, num_bytes = options.product_size, options.stream_bytes
    cases = {
        **ceilings.products(size, options.device),
        "stream": ceilings.stream(num_bytes, options.device),
    }
    times = in_turn(cases, options.budget, options.device)
    work = dict.fromkeys(cases, ceilings.product_flops(size))
    work["stream"] = ceilings.STREAM_TRANSFERS * num_bytes
    return {
        "product_size": size,
        "stream_bytes": num_bytes,
        "rounds": len(times["stream"]),
        "settings": {
            name: {
                "seconds": quartiles(times[name]),
                "per_second": quartiles([work[name] / value for value in times[name]]),
            }
            for name in cases
        },
    }
