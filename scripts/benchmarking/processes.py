"""What runs in a copy of this process, to have its way with memory."""

import multiprocessing
import platform
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch

from sase_hf.utils.memory import keep_freed_memory


def can_fork(device: torch.device) -> bool:
    """Say whether a case may run in a copy of this process.

    A GPU and several threads do not survive the copying, and only glibc has a way with memory.
    """
    is_small = device.type == "cpu" and torch.get_num_threads() == 1
    return is_small and platform.libc_ver()[0] == "glibc"


class OwnProcess:
    """A case that runs, call after call, in a copy of this process as it was at the first call.

    Args:
        case: What is run.
        keeps_memory: Whether freed memory stays with the process, as under `scripts/train.py`;
            otherwise it goes back to the system, as in a program that does nothing about it.
    """

    def __init__(self, case: Callable[[], object], *, keeps_memory: bool) -> None:
        self.case = case
        self.keeps_memory = keeps_memory
        self._end: Connection | None = None

    def __call__(self) -> None:
        """Run the case once and wait for it.

        Raises:
            RuntimeError: If it failed.
        """
        if self._end is None:
            self._end = self._start()
        self._end.send("run")
        try:
            failure = self._end.recv()
        except EOFError:
            failure = "its process died; was there memory enough?"
        if failure is not None:
            raise RuntimeError(failure)

    def _start(self) -> Connection:
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        process = context.Process(target=self._serve, args=(there, here), daemon=True)
        with warnings.catch_warnings():  # of threads that the copy lacks: it needs none
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        there.close()
        weakref.finalize(self, here.close)  # the copy ends when nobody asks any more
        return here

    def _serve(self, asked: Connection, other_end: Connection) -> None:
        """Run the case whenever it is asked for."""
        other_end.close()
        if self.keeps_memory:
            keep_freed_memory()
        while True:
            try:
                asked.recv()
            except EOFError:
                return
            try:
                self.case()
            except Exception as error:
                asked.send(f"{type(error).__name__}: {error}")
            else:
                asked.send(None)
