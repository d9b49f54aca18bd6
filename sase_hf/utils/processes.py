"""Work in a process of its own, which leaves no traces in this one and meets none."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any


def in_fresh_process(work: Callable[..., Any], *args: Any) -> Any:
    """Return what some work returns in a process that has done nothing but import the package.

    Args:
        work: A function of a module.
        *args: Its arguments; they are sent over.

    Raises:
        RuntimeError: If the process ends before the work is done.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sase_hf"])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(work, *args).result()
        except BrokenProcessPool as reason:
            raise RuntimeError(
                "the process that was to do it ended at once: it ran out of memory, or the script "
                'that calls does so outside of `if __name__ == "__main__":`, where a new process '
                "would call again"
            ) from reason


__all__ = ["in_fresh_process"]
