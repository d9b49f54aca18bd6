"""Runs one after another or side by side, each in a process of its own, until all have records."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sase_hf.evaluation.records import write_record
from sase_hf.training.checkpoints import list_checkpoints

from .measurements import measure
from .runs import Run, State, settings_of, state_of

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_END = 10
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LAST_LINES = 10


class Training:
    """The training of a run, in a process of its own, from its beginning or its last checkpoint.

    While it lasts its log is locked, also by the process itself: were this one killed, the same
    run would not be started a second time beside it.

    Args:
        run: What is trained.
        state: How far it is.
        log: Its log, locked; it is closed when the training is over.
    """

    def __init__(self, run: Run, state: State, log: BinaryIO) -> None:
        self.run = run
        self.start = time.monotonic()
        self.log = log
        if state.epoch is None:
            shutil.rmtree(run.folder, ignore_errors=True)
            write_record(settings_of(run), run.begun_with)
        resume = [] if state.epoch is None else ["--resume_from_checkpoint=true"]
        self.process = subprocess.Popen(
            [sys.executable, str(TRAIN), *run.words, *resume],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            start_new_session=True,  # Ctrl-C reaches the study alone, which then ends its processes
        )

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    @property
    def minutes(self) -> float:
        """How long it has been going on."""
        return (time.monotonic() - self.start) / 60

    def record(self) -> dict[str, Any]:
        """Write and return the record of a training that has ended; let its checkpoints go.

        Raises:
            RuntimeError: If the training failed.
            ValueError: If its attention is no finite number.
            OSError: If a file cannot be read or written.
        """
        try:
            if self.process.returncode != 0:
                raise RuntimeError(f"it ended with status {self.process.returncode}")
            record = json.loads(self.run.draft.read_text(encoding="utf-8"))
            record |= measure(self.run)
            write_record(record, self.run.record)
            for checkpoint in list_checkpoints(self.run.folder):
                shutil.rmtree(checkpoint)
            return dict(record)
        finally:
            self.log.close()

    def terminate(self) -> None:
        """Ask the process, and all that it has started, to end."""
        if not self.has_ended:
            os.killpg(self.process.pid, signal.SIGTERM)

    def stop(self) -> None:
        """Wait until the process has ended, and end it by force if that takes long."""
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


class Report:
    """What is said of a study while it goes on: a line whenever something begins or ends.

    Args:
        total: The runs of the study.
        jobs: How many of them go on at a time.
    """

    def __init__(self, total: int, jobs: int) -> None:
        self.total = total
        self.jobs = jobs
        self.minutes: list[float] = []
        self.num_over = 0
        self.failed: list[str] = []

    def skipped(self, run: Run, state: State) -> None:
        """Say that a record answers the run."""
        self.num_over += 1
        print(f"{run.name}: {state}; {self.count}", flush=True)

    def begun(self, run: Run, state: State) -> None:
        """Say that its training goes on or begins, and why if there was a record."""
        how = "goes on" if state.epoch is not None else "begins"
        why = "" if state.kind == "missing" else f" ({state})"
        print(f"{run.name}: {how}{why}", flush=True)

    def ended(self, run: Run, record: dict[str, Any], minutes: float) -> None:
        """Say what came out, and when all may be over."""
        self.num_over += 1
        self.minutes.append(minutes)
        accuracy = record["metrics"].get("accuracy")
        shown = "no accuracy" if accuracy is None else f"accuracy {accuracy:.2%}"
        mean = sum(self.minutes) / len(self.minutes)
        left = mean * (self.total - self.num_over) / self.jobs
        print(
            f"{run.name}: {shown}, {minutes:.1f} minutes; {self.count}, "
            f"about {left / 60:.1f} hours left",
            flush=True,
        )

    def broken(self, run: Run, reason: Exception) -> None:
        """Say why a run has no record, and show the end of its log."""
        self.num_over += 1
        self.failed.append(run.name)
        print(f"{run.name}: FAILED, {reason}; {self.count}. The end of {run.log}:", flush=True)
        for line in _last_lines(run.log):
            print(f"    {line}", flush=True)

    @property
    def count(self) -> str:
        """How many runs are over."""
        return f"{self.num_over}/{self.total}"


def run_all(runs: Sequence[Run], jobs: int) -> list[str]:
    """Train what no record answers.

    Args:
        runs: The runs.
        jobs: How many are trained at a time.

    Returns:
        The names of the runs that failed.

    Raises:
        ValueError: If a recipe or a record cannot be read; nothing is begun then.
        FileNotFoundError: If a base of a recipe is not there; likewise.
        KeyboardInterrupt: After Ctrl-C or SIGTERM; all processes have been ended.
    """
    report = Report(len(runs), jobs)
    states = [(run, state_of(run)) for run in runs]
    for run, state in states:
        if state.kind == "done":
            report.skipped(run, state)
    waiting = deque(run for run, state in states if state.kind != "done")
    active: list[Training] = []
    with _sigterm_interrupts():
        try:
            while waiting or active:
                while waiting and len(active) < jobs:
                    _begin(waiting.popleft(), active, report)
                for training in [training for training in active if training.has_ended]:
                    active.remove(training)
                    _end(training, report)
                time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            for number in SIGNALS:  # once is enough: what is left takes seconds
                signal.signal(number, signal.SIG_IGN)
            for training in active:
                training.terminate()
            for training in active:
                training.stop()
    return report.failed


def _begin(run: Run, active: list[Training], report: Report) -> None:
    with ExitStack() as until_begun:
        try:
            log = until_begun.enter_context(_locked(run.log))
            state = state_of(run)  # anew: hours may have passed, and another study have done it
            if state.kind == "done":
                report.skipped(run, state)
                return
            report.begun(run, state)
            active.append(Training(run, state, log))
            until_begun.pop_all()
        except (RuntimeError, ValueError, OSError) as error:
            report.broken(run, error)


def _locked(path: Path) -> BinaryIO:
    """Open a log to append to it, so that no other process can until it is closed.

    Raises:
        RuntimeError: If another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.open("ab")
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        log.close()
        raise RuntimeError(
            "another process is at it. Wait for it, or end it and give the command again"
        ) from error
    return log


def _end(training: Training, report: Report) -> None:
    try:
        record = training.record()
    except Exception as error:  # whatever it is, the other runs go on
        report.broken(training.run, error)
        return
    report.ended(training.run, record, training.minutes)


def _last_lines(path: Path) -> Iterable[str]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return text.splitlines()[-LAST_LINES:]


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that no process is left behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    earlier = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


__all__ = ["run_all"]
