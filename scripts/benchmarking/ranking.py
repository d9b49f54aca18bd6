"""The part of the benchmark that ranks: what a query costs among very many documents."""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from sase_hf import SelfAttentiveConfig
from sase_hf.evaluation.ranking import best_documents
from sase_hf.models import unit_rows

from .timing import in_turn, quartiles, seconds_of

QUERIES = (1, 64)  # at once
TOP_K = 10


def ranking(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Measure the seconds of a query among `--num_texts` made documents, by rows and flat.

    On a CPU, whatever `--device` says: so `scripts/rank.py` ranks.
    """
    config = SelfAttentiveConfig(**flags.fields)
    torch.manual_seed(flags.seed)
    made = torch.randn(flags.num_texts, config.projection_dim)
    cases, shares = {}, {}
    for mode in ("rows", "flat"):
        documents = unit_rows(made, config, mode)
        for count in QUERIES:
            queries = unit_rows(torch.randn(count, config.projection_dim), config, mode)
            name = f"{mode}, {count} at once"
            rank = partial(best_documents, queries, documents, min(TOP_K, flags.num_texts))
            cases[name], shares[name] = partial(seconds_of, rank, "cpu"), count
    times = in_turn(cases, flags.rounds, flags.seconds)
    rows = {
        name: {"seconds": quartiles([one / shares[name] for one in taken])}
        for name, taken in times.items()
    }
    facts = {
        "device": "cpu",
        "documents": flags.num_texts,
        "rows": config.num_rows,
        "width": config.hidden_size,
    }
    yield {**facts, "rounds": min(map(len, times.values())), "settings": rows}
