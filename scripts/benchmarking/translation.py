"""The part of the benchmark that trains and runs translation models."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from sase_hf import RNNSearchConfig, RNNSearchForConditionalGeneration

from .plain_seq2seq import PlainSeq2Seq
from .timing import in_turn, quartiles, seconds_of, speedup

# Sizes of the recipe that was trained here, and lengths like those of captions.
FIELDS: dict[str, Any] = {
    "vocab_size": 6000,
    "embedding_size": 256,
    "hidden_size": 256,
    "attention_size": 256,
    "maxout_size": 128,
}
BATCH_SIZE = 80
SHORTEST, LONGEST = 12, 20  # words; batches are of similar lengths
NUM_BEAMS = 5
PLAIN, OURS, BEAM = "plain seq2seq", "RNNsearch", f"RNNsearch, beam {NUM_BEAMS}"

Result = dict[str, Any]


def translation(flags: Namespace) -> Iterator[Result]:
    """Compare training steps, then translation, of RNNsearch and of a plain model of its sizes."""
    torch.manual_seed(flags.seed)
    config = RNNSearchConfig(**FIELDS)
    ours = RNNSearchForConditionalGeneration(config).to(flags.device)
    plain = PlainSeq2Seq(config).to(flags.device)
    source, mask = draw(flags.device)
    labels, label_mask = draw(flags.device)
    labels = labels.masked_fill(label_mask == 0, -100)
    batch = {"input_ids": source, "attention_mask": mask, "labels": labels}
    trainings = {
        PLAIN: training_step(plain.train(), lambda: plain(**batch)),
        OURS: training_step(ours.train(), lambda: ours(**batch).loss),
    }
    facts = {"batch_size": BATCH_SIZE}
    times = timed(trainings, flags)
    yield facts | {"of": "training"} | described(times, int(label_mask.sum()))

    ours.eval()
    plain.eval()
    # Untrained models would not end at the same time: all write the same number of words.
    options = {"min_new_tokens": LONGEST, "max_new_tokens": LONGEST}
    generate = partial(ours.generate, input_ids=source, attention_mask=mask, **options)
    ways: dict[str, Callable[[], Any]] = {
        PLAIN: partial(plain.translate, source, mask, LONGEST),
        OURS: partial(generate, num_beams=1),
        BEAM: partial(generate, num_beams=NUM_BEAMS),
    }
    times = timed(ways, flags)
    result = described(times, BATCH_SIZE * LONGEST)
    per_hypothesis = [
        beam / NUM_BEAMS / one for beam, one in zip(times[BEAM], times[OURS], strict=True)
    ]
    result["settings"][BEAM]["times_greedy_per_hypothesis"] = quartiles(per_hypothesis)
    for name, row in result["settings"].items():
        row["sentences_per_second"] = quartiles([BATCH_SIZE / taken for taken in times[name]])
    yield facts | {"of": "translation"} | result


def draw(device: str) -> tuple[Tensor, Tensor]:
    """Return random words (B, T) and their mask."""
    lengths = torch.randint(SHORTEST, LONGEST + 1, (BATCH_SIZE, 1))
    lengths[0] = LONGEST
    words = torch.randint(3, FIELDS["vocab_size"], (BATCH_SIZE, LONGEST))
    mask = (torch.arange(LONGEST) < lengths).long()
    return (words * mask).to(device), mask.to(device)


def training_step(model: torch.nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a whole training step with Adam."""
    optimizer = Adam(model.parameters(), fused=True)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def timed(ways: dict[str, Callable[[], Any]], flags: Namespace) -> dict[str, list[float]]:
    """Return the seconds of each way in every round."""
    cases = {name: partial(seconds_of, way, flags.device) for name, way in ways.items()}
    return in_turn(cases, flags.rounds, flags.seconds)


def described(times: dict[str, list[float]], words: int) -> Result:
    """Return speed-ups over the plain model and target words in a second."""
    rows = {
        name: {
            "seconds": quartiles(taken),
            "tokens_per_second": quartiles([words / value for value in taken]),
            "speedup": speedup(times, PLAIN, name),
        }
        for name, taken in times.items()
    }
    return {"rounds": len(times[PLAIN]), "settings": rows}
