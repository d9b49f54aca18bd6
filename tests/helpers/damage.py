"""Two damaged copies of the weights of a checkpoint, and the ways to load that accept one.

    python -I damage.py FOLDER TASK HEAD    # without sase_hf, by trust_remote_code

TASK is the name of a pipeline, HEAD the name of the Auto class of the heads. The command prints the
ways that loaded a damaged copy.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any


def ways_in(folder: Path, task: str, head: str, **flags: Any) -> dict[str, Callable[[], Any]]:
    """Return the functions of transformers that load a checkpoint, by name."""
    import transformers

    ways: dict[str, Callable[[], Any]] = {
        name: partial(getattr(transformers, name).from_pretrained, folder, **flags)
        for name in ("AutoModel", head)
    }
    return ways | {"pipeline": partial(transformers.pipeline, task, model=folder, **flags)}


def loaders_of_damaged(folder: Path, ways: Mapping[str, Callable[[], Any]]) -> list[str]:
    """Return the ways that load a copy cut short, or one with another bit; each loads the whole."""
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for load in ways.values():
        load()
    careless = set()
    for copy in (whole[:middle], flipped):
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
