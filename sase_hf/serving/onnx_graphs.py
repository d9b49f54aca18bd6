"""A model as an ONNX file, for batches of any size and texts of any length, in float32 and int8.

A second export in the same process would fix the length of the texts, so whoever exports calls
`write_graphs` in a fresh one.
"""

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# B and T of the batches that a graph is compared on; the export looks at another one.
EXAMPLE = (3, 16)
CHECKED = ((1, 1), (1, 37), (2, 5), (7, 64), (4, 150))

# A protobuf file holds no more.
MAX_BYTES = 2**31 - 2**24


class Graph(nn.Module):
    """A model as the exporter wants it: tensors in, a tuple of tensors out.

    Args:
        model: The base model or a head.
    """

    def __init__(self, model: SelfAttentivePreTrainedModel) -> None:
        super().__init__()
        self.model = model

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the tensors (B, T) that go in; only who reads pairs needs token types."""
        return INPUTS if self.model.reads_pairs else INPUTS[:2]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what comes out.

        First `logits` (B, num_labels) or `sentence_embedding` (B, r * H). If the model attends,
        then `attentions`, A (B, r, T), or (B, 2, r, T) for pairs.
        """
        first = "logits" if self.model.is_head else "sentence_embedding"
        return (first, "attentions") if self.model.config.has_attention else (first,)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the tensors that `outputs` names."""
        found = self.model(input_ids, attention_mask, token_type_ids, output_attentions=True)
        return (found[self.outputs[0]], *(found.attentions or ()))


def write_graphs(model: SelfAttentivePreTrainedModel, path: Path, int8_path: Path | None) -> None:
    """Write a model as ONNX files.

    Args:
        model: The base model or a head, on the CPU, in float32 and in evaluation mode.
        path: Where to.
        int8_path: Where a second file goes, whose matrix products keep their weights in 8 bits and
            quantize their inputs on the way; None for no such file.

    Raises:
        ValueError: If the model is too large for the format.
    """
    size = sum(weight.numel() * weight.element_size() for weight in model.state_dict().values())
    if size > MAX_BYTES:
        raise ValueError(
            f"the model has {size:,} bytes of weights, and an ONNX file holds {MAX_BYTES:,}; train "
            "one with a smaller vocabulary"
        )
    graph = Graph(model).eval()
    free = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}
    torch.onnx.export(
        graph,
        tuple(torch.ones(EXAMPLE, dtype=torch.long) for _ in graph.inputs),
        path,
        dynamo=True,
        dynamic_shapes=tuple(free for _ in graph.inputs),
        input_names=graph.inputs,
        output_names=graph.outputs,
        external_data=False,
        verbose=False,
    )
    if int8_path is not None:
        _write_int8(path, int8_path)


def _write_int8(path: Path, int8_path: Path) -> None:
    """Write a copy of a graph with int8 weights."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exported = onnx.load(path)
    # The shapes noted for what lies between the layers contradict those that onnx finds.
    del exported.graph.value_info[:]
    quantize_dynamic(exported, int8_path, weight_type=QuantType.QInt8)


def silence_exporter() -> None:
    """Let a process that does nothing but export be silent: torch's exporter warns of itself."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def opset_of(path: Path) -> int:
    """Return the version of ONNX's own operators that a file uses.

    Args:
        path: The file.
    """
    import onnx

    imports = onnx.load(path).opset_import
    return next(int(entry.version) for entry in imports if entry.domain == "")


def largest_difference(model: SelfAttentivePreTrainedModel, path: Path) -> float:
    """Compare a graph with its model on random texts of lengths that the export has not seen.

    Padding is on the right, on the left and in holes, and a row of every batch is nothing else.

    Args:
        model: What was exported, in evaluation mode.
        path: The graph.

    Returns:
        The largest difference of a number in any output, as a share of the largest number in that
        output, or of 1 if this is below it.

    Raises:
        Exception: What onnxruntime raises for a batch that it cannot read.
    """
    import onnxruntime

    graph = Graph(model).eval()
    session = onnxruntime.InferenceSession(path)
    largest = 0.0
    for batch in _random_batches(model.config.vocab_size):
        feed = dict(zip(graph.inputs, batch, strict=False))
        with torch.inference_mode():
            expected = graph(**feed)
        names = list(graph.outputs)
        found = session.run(names, {name: part.numpy() for name, part in feed.items()})
        for ours, eager in zip(found, expected, strict=True):
            apart = relative_difference(torch.from_numpy(ours), eager)
            largest = max(largest, apart)
    return largest


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference as a share of the largest number, or of 1 if that is larger.

    Args:
        found: Any tensor.
        expected: One of the same shape.
    """
    if found.shape != expected.shape:
        return float("inf")
    # NaN must not pass as small.
    apart = (found - expected).abs().nan_to_num(torch.inf)
    return float(apart.max() / expected.abs().max().clamp(min=1))


def _random_batches(vocab_size: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield ids, mask and token types, each (B, T)."""
    generator = torch.Generator().manual_seed(0)

    def draw(below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=generator)

    for batch, length in CHECKED:
        places = torch.arange(length)
        lengths = draw(length + 1, batch, 1)
        lengths[-1] = 0 if batch > 1 else length
        for mask in (
            places < lengths,
            places >= length - lengths,
            (places < lengths)[:, torch.randperm(length, generator=generator)],
        ):
            second = mask.cumsum(1) > lengths * torch.rand(batch, 1, generator=generator)
            yield draw(vocab_size, batch, length), mask.long(), second.long()


__all__ = [
    "INPUTS",
    "Graph",
    "largest_difference",
    "opset_of",
    "relative_difference",
    "silence_exporter",
    "write_graphs",
]
