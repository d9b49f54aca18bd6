"""Work in a process of its own, which leaves no traces in this one and meets none."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def in_fresh_process(work: Callable[..., Any], *args: Any) -> Any:
    """Return what some work returns in a process that has done nothing but import the package.

    Args:
        work: A function of a module.
        *args: Its arguments; they are sent over.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sase_hf"])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(work, *args).result()


__all__ = ["in_fresh_process"]
