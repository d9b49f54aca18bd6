"""Damaged copies of the weights of a checkpoint, and the ways to load that accept one.

    python -I damage.py FOLDER TASK HEAD    # without sase_hf, by trust_remote_code

TASK is the name of a pipeline, HEAD the name of the Auto class of the heads. The command prints the
ways that loaded a damaged copy. SASE_HF_DAMAGED_COPIES=100 tries 100 copies of each kind.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

COUNT = int(os.environ.get("SASE_HF_DAMAGED_COPIES", "10"))


def damaged(whole: bytes) -> Iterator[bytes]:
    """Yield `COUNT` truncated copies and as many with one other bit."""
    rng = random.Random(0)
    for _ in range(COUNT):
        yield whole[: rng.randrange(len(whole))]
    for _ in range(COUNT):
        place, copy = rng.randrange(8 * len(whole)), bytearray(whole)
        copy[place // 8] ^= 1 << place % 8
        yield bytes(copy)


def ways_in(folder: Path, task: str, head: str, **flags: Any) -> dict[str, Callable[[], Any]]:
    """Return the functions of transformers that load a checkpoint, by name."""
    import transformers

    ways: dict[str, Callable[[], Any]] = {
        name: partial(getattr(transformers, name).from_pretrained, folder, **flags)
        for name in ("AutoModel", head)
    }
    return ways | {"pipeline": partial(transformers.pipeline, task, model=str(folder), **flags)}


def loaders_of_damaged(folder: Path, ways: Mapping[str, Callable[[], Any]]) -> list[str]:
    """Return the ways that load a damaged copy; each must load the whole one."""
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for load in ways.values():
        load()
    careless = set()
    for copy in damaged(whole):
        path.write_bytes(copy)
        for name, load in ways.items():
            try:
                load()
            except ValueError as reason:
                if "SHA-256" in str(reason):
                    continue
            careless.add(name)
    path.write_bytes(whole)
    return sorted(careless)


if __name__ == "__main__":
    sys.modules["sase_hf"] = None  # type: ignore[assignment]  # importing it now fails
    folder, task, head = sys.argv[1:]
    ways = ways_in(Path(folder), task, head, trust_remote_code=True)
    sys.stdout.write(str(loaders_of_damaged(Path(folder), ways)))
