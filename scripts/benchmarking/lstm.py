"""The part of the benchmark about the LSTM alone: ways to read a batch in both directions."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from sase_hf import SelfAttentiveConfig
from sase_hf.models.self_attentive.encoders_self_attentive import BiLSTMLayer
from sase_hf.models.self_attentive.packing_self_attentive import Packing

from .models import PAPER, TOLERANCE
from .texts import WORKLOADS, Batch, batches_of, draw_texts
from .timing import in_turn, products, quartiles, seconds_of, speedup

BATCH_SIZES = (64, 512)  # of a CPU, and of a GPU
MAX_TOKENS = 2**20  # of a batch, padding included: more would fill the memory
BASELINE = "nn.LSTM, packed"
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def lstm(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Compare forward and backward pass of a bidirectional LSTM over the same word vectors.

    *Ours* calls a one-way LSTM twice for each block of a batch. The others read a batch in one
    bidirectional call: packed, or dense with its padding, which computes other states than the
    rest, as it reads padding before the words from right to left.
    """
    config = SelfAttentiveConfig(**{**PAPER, **flags.fields})
    width, units = config.embedding_size, config.lstm_hidden_size
    ours = BiLSTMLayer(width, units).to(flags.device)
    plain = nn.LSTM(width, units, bidirectional=True, batch_first=True).to(flags.device)
    halves = [half.parameters() for half in (ours.forward_lstm, ours.backward_lstm)]
    nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(chain.from_iterable(halves)), plain.parameters()
    )
    plain.flatten_parameters()  # into the one piece of memory that cuDNN reads
    cases = product(flags.workloads, BATCH_SIZES, (False, True), PRECISIONS.items())
    for name, size, grouped, (precision, dtype) in cases:
        torch.manual_seed(flags.seed)
        count = size * min(WORKLOADS[name].num_batches, flags.max_batches)
        texts = draw_texts(WORKLOADS[name].draw(count), 2, 2)
        batches = batches_of(texts, size, grouped=grouped, device=flags.device)
        if max(batch["input_ids"].numel() for batch in batches) > MAX_TOKENS:
            continue
        inputs = [
            torch.randn(*batch["input_ids"].shape, width, device=flags.device, requires_grad=True)
            for batch in batches
        ]
        ways: dict[str, Callable[[Tensor, Batch], Tensor]] = {
            BASELINE: partial(read_packed, plain),
            "nn.LSTM, dense": lambda x, _: plain(x)[0],
            "ours": partial(read_blocks, ours),
        }
        autocast = partial(torch.autocast, flags.device, dtype, enabled=precision != "fp32")
        runs = {
            way: partial(_forward_and_backward, read, inputs, batches, autocast)
            for way, read in ways.items()
        }
        timed = {way: partial(seconds_of, run, flags.device) for way, run in runs.items()}
        ceiling = products(flags.product_size, flags.device)[f"product, {precision}"]
        # cuDNN may use TF32, which hides differences, and which the product of float32 does not.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            _check_equal(ours, plain, inputs[0], batches[0])
            times = in_turn({**timed, "product": ceiling}, flags.rounds, flags.seconds)
        # Eight products of (tokens, width + units) and (width + units, units), thrice with the
        # backward pass; padding does not count.
        tokens = sum(len(text) for text, _ in texts)
        flops = 3 * 2 * tokens * 8 * units * (width + units)
        at_ceiling = [flops / (2 * flags.product_size**3) * taken for taken in times["product"]]
        rows = {
            way: {
                "seconds": quartiles(times[way]),
                "speedup": speedup(times, BASELINE, way),
                "share_of_ceiling": quartiles(
                    [least / taken for least, taken in zip(at_ceiling, times[way], strict=True)]
                ),
            }
            for way in ways
        }
        facts = {"workload": name, "batch_size": size, "grouped": grouped, "precision": precision}
        yield {**facts, "rounds": len(times[BASELINE]), "settings": rows}


def read_packed(lstm: nn.LSTM, x: Tensor, batch: Batch) -> Tensor:
    """Return the states of real tokens, in the order of a packed sequence."""
    lengths = batch["attention_mask"].sum(1).cpu()
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return lstm(packed)[0].data


def read_blocks(layer: BiLSTMLayer, x: Tensor, batch: Batch) -> Tensor:
    """Return the states of real tokens, in the order of our packing."""
    packing = Packing(batch["attention_mask"].bool())
    return layer(packing.pack(x), packing)


@torch.no_grad()
def _check_equal(ours: BiLSTMLayer, plain: nn.LSTM, x: Tensor, batch: Batch) -> None:
    packing = Packing(batch["attention_mask"].bool())
    rows = packing.unpack(read_blocks(ours, x, batch))
    lengths = batch["attention_mask"].sum(1).cpu()
    own = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False).data
    if not torch.allclose(own, read_packed(plain, x, batch), rtol=TOLERANCE, atol=TOLERANCE):
        raise RuntimeError("our LSTM computes other states than torch's; correct it first")


def _forward_and_backward(
    read: Callable[[Tensor, Batch], Tensor],
    inputs: Sequence[Tensor],
    batches: Sequence[Batch],
    autocast: Callable[[], Any],
) -> None:
    for x, batch in zip(inputs, batches, strict=True):
        with autocast():
            states = read(x, batch)
        states.float().square().mean().backward()
