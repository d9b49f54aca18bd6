"""Work in a fresh process, apart from whatever this one has done before."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any


def in_fresh_process(work: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns in a process that has only imported the package.

    The function stands at the top level of a module; its arguments are pickled.

    Raises:
        RuntimeError: If the process ends before the function returns.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sase_hf"])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(work, *args).result()
        except BrokenProcessPool as reason:
            raise RuntimeError(
                "the fresh process ended before its work was done: it ran out of memory, or your "
                'script calls this outside of `if __name__ == "__main__":`'
            ) from reason
