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

from .models import PAPER, TOLERANCE, Settings
from .texts import WORKLOADS, Batch, batches_of, draw_texts
from .timing import TRAINING_FACTOR, Case, describe, in_turn, lstm_flops, products, seconds_of

BATCH_SIZES = (64, 512)  # of a CPU, and of a GPU
MAX_TOKENS = 2**20  # of a batch, padding included: more would fill the memory


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
    ways: dict[str, Callable[[Tensor, Batch], Tensor]] = {
        "nn.LSTM, packed": partial(read_packed, plain),
        "nn.LSTM, dense": lambda x, _: plain(x)[0],
        "ours": partial(read_blocks, ours),
    }
    cases = product(flags.workloads, BATCH_SIZES, (False, True), (False, True))
    for name, size, grouped, autocast in cases:
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
        settings = [Settings(way, autocast=autocast, grouped=grouped) for way in ways]
        timed: dict[str, Case] = {}
        for one in settings:
            precision = partial(one.precision, flags.device)
            run = partial(_forward_and_backward, ways[one.name], inputs, batches, precision)
            timed[one.name] = partial(seconds_of, run, flags.device)
        # cuDNN may use TF32, which hides differences, and which the product of float32 does not.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            _check_equal(ours, plain, inputs[0], batches[0])
            ceilings = products(flags.product_size, flags.device)
            times = in_turn({**timed, **ceilings}, flags.rounds, flags.seconds)
        tokens = sum(len(text) for text, _ in texts)  # padding does not count
        flops = TRAINING_FACTOR * lstm_flops(config) * tokens
        facts = {"workload": name, "batch_size": size, "grouped": grouped}
        result = describe(settings, times, texts, flops, flags.product_size)
        yield {**facts, "precision": settings[0].dtype} | result


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
    precision: Callable[[], Any],
) -> None:
    for x, batch in zip(inputs, batches, strict=True):
        with precision():
            states = read(x, batch)
        states.float().square().mean().backward()
