"""Several settings on the same texts, timed in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sase_hf import SelfAttentiveConfig

from . import ceilings
from .passes import logit_difference, sample_batch
from .processes import OwnProcess, can_fork
from .settings import DEFAULTS, NUM_LABELS, AnyModel, Settings, build_model
from .timing import Budget, Times, quartiles, speedup
from .workloads import Batch, Workload, batches_of, draw_texts, padding_factor, real_tokens

Result = dict[str, Any]
Texts = list[tuple[Tensor, int]]


@dataclass(frozen=True)
class Options:
    """What is measured, and for how long.

    Attributes:
        device: Where everything runs.
        seed: Of weights and texts.
        budget: Of each comparison.
        workloads: Names in `WORKLOADS`.
        classifiers: Names in `CLASSIFIERS`.
        lengths: Tokens of the longest text, for the cost against length.
        product_size: Rows of the matrices whose product is the ceiling.
        stream_bytes: Of each array whose sum measures the bandwidth of the memory.
        num_texts: In the list that pipelines read and that is embedded.
        max_batches: Of a pass.
        fields: Fields of the config, for other sizes than the paper's; they win.
    """

    device: torch.device
    seed: int
    budget: Budget
    workloads: Sequence[str]
    classifiers: Sequence[str]
    lengths: Sequence[int]
    product_size: int
    stream_bytes: int
    num_texts: int
    max_batches: int
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vocab_size(self) -> int:
        """Of the models and of the texts."""
        return int(self.fields.get("vocab_size", DEFAULTS["vocab_size"]))

    def config(self, fields: Mapping[str, Any]) -> SelfAttentiveConfig:
        """Return the config of a model with these fields."""
        return SelfAttentiveConfig(**{**DEFAULTS, **fields, **self.fields})

    def model(self, settings: Settings, fields: Mapping[str, Any]) -> AnyModel:
        """Return the model with these fields, in training mode."""
        return build_model(settings, {**fields, **self.fields}, self.device, self.seed)

    def texts(self, workload: Workload) -> Texts:
        """Draw the texts of one pass, the same each time."""
        torch.manual_seed(self.seed)
        count = workload.batch_size * min(workload.num_batches, self.max_batches)
        return draw_texts(workload.draw(count), self.vocab_size, NUM_LABELS)


@dataclass
class Comparison:
    """Several settings on the same texts.

    Attributes:
        batches: What each settings' model reads, by the name of the settings.
        cases: What is timed, by name.
        differences: Of the logits from those of the first settings.
    """

    batches: dict[str, list[Batch]] = field(default_factory=dict)
    cases: dict[str, Callable[[], object]] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)


def compare(
    options: Options,
    settings: Sequence[Settings],
    texts: Texts,
    batch_size: int,
    prepare: Callable[[AnyModel, Settings, list[Batch]], Callable[[], None]],
    fields: Mapping[str, Any],
) -> Comparison:
    """Make the models and batches of a comparison, after a look at their logits.

    Args:
        options: The options of the run.
        settings: What is compared; the first is the baseline.
        texts: What all of them read.
        batch_size: Texts in a batch.
        prepare: One of the passes.
        fields: Fields of the config.
    """
    comparison = Comparison()
    baseline = None
    sample = sample_batch(options.vocab_size, NUM_LABELS, options.device)
    for one in settings:
        model = options.model(one, fields)
        batches = batches_of(texts, batch_size, grouped=one.grouped, device=options.device)
        if baseline is None:
            baseline = model
        if not one.fields:  # other fields make another model
            difference = logit_difference(model, one, baseline, sample)
            comparison.differences[one.name] = difference
        comparison.batches[one.name] = batches
        case = prepare(model, one, batches)
        if can_fork(options.device):
            case = OwnProcess(case, keeps_memory=one.keeps_memory)
        comparison.cases[one.name] = case
    return comparison


def describe(
    comparison: Comparison,
    settings: Sequence[Settings],
    times: Times,
    flops: float,
    product_size: int,
) -> dict[str, Result]:
    """Return what was measured of each settings.

    Args:
        comparison: What was compared.
        settings: The first is the baseline.
        times: Of the cases and of the matrix products.
        flops: Of one pass.
        product_size: That of the matrix products.
    """
    results = {}
    for one in settings:
        seconds = times[one.name]
        tokens = real_tokens(comparison.batches[one.name])
        result: Result = {
            "seconds": quartiles(seconds),
            "tokens_per_second": quartiles([tokens / value for value in seconds]),
            "speedup": speedup(times, settings[0].name, one.name),
            "padding_factor": padding_factor(comparison.batches[one.name]),
            "logit_difference": comparison.differences.get(one.name),
        }
        product = times.get(f"product, {one.dtype}")
        if product and not one.fields:
            ceiling = [ceilings.product_flops(product_size) / value for value in product]
            shares = [flops / s / c for s, c in zip(seconds, ceiling, strict=True)]
            result["share_of_ceiling"] = quartiles(shares)
        results[one.name] = result
    return results
