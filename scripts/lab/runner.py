"""A run of the study or the leaderboard, its state, and its way to a record."""

import fcntl
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from records import Record, read_records, replace_record, settings_sha

from sase_hf.training.run import list_checkpoints, newest_complete_checkpoint
from sase_hf.utils.files import write_text

LAB = Path(__file__).resolve().parent
SCRIPTS = LAB.parent
RESULTS = ("accuracy", "bleu", "mrr")  # the first that a record has is shown


@dataclass(frozen=True)
class Run(ABC):
    """A measurement that leaves one record."""

    name: str  # of the record, such as yelp5/cnn_max-seed42
    seed: int
    settings: Mapping[str, Any]  # all that decides the result beside the seed
    records: Path  # the JSON Lines file of the record
    runs: Path  # the folder for models and logs

    @property
    def folder(self) -> Path:
        """The folder of checkpoints and of the trained model."""
        return self.runs / self.name

    @property
    def mark(self) -> Path:
        """The file with the `settings_sha` of the content of `folder`."""
        return self.runs / f"{self.name}.settings"

    @abstractmethod
    def measure(self, log: IO[bytes]) -> Record:
        """Measure and return the record; raise CalledProcessError if a process failed."""

    def start_over(self) -> None:
        """Empty the folder for a run with the settings of today."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        write_text(self.mark, settings_sha(self.settings))


def state_of(run: Run) -> str:
    """Return how far a run is: done, unfinished, missing, or changed since its record."""
    record = read_records(run.records).get(run.name)
    sha = settings_sha(run.settings)
    if record is not None and record["settings_sha"] == sha:
        name = next(name for name in RESULTS if name in record["metrics"])
        return f"done, {name} {record['metrics'][name]:.4f}"
    if run.mark.is_file() and run.mark.read_text(encoding="utf-8") == sha:
        checkpoint = newest_complete_checkpoint(run.folder)
        if checkpoint is not None:
            return f"unfinished, {checkpoint.name}"
    return "missing" if record is None else "changed"


def complete(runs: Sequence[Run]) -> None:
    """Measure the runs without a record of their settings; a failure does not stop the others.

    Raises SystemExit, with the names of all runs that failed.
    """
    failed = [run.name for run in runs if not _complete(run)]
    if failed:
        sys.exit(f"study.py: {len(failed)} of {len(runs)} runs failed: {', '.join(failed)}")


def _complete(run: Run) -> bool:
    if not state_of(run).startswith("done"):
        with _locked_log(run) as log:
            state = state_of(run)  # the process that held the lock may have measured it
            if not state.startswith("done"):
                print(f"{run.name}: {state}", flush=True)
                try:
                    record = run.measure(log)
                except subprocess.CalledProcessError as error:
                    status = f"failed with status {error.returncode}; see {log.name}"
                    print(f"{run.name}: {status}", flush=True)
                    return False
                address = {"run": run.name, "settings_sha": settings_sha(run.settings)}
                replace_record(run.records, {**record, **address})
    for checkpoint in list_checkpoints(run.folder):  # a kill may have left them beside a record
        shutil.rmtree(checkpoint, ignore_errors=True)
    print(f"{run.name}: {state_of(run)}", flush=True)
    return True


def call(words: Sequence[str], log: IO[bytes]) -> None:
    """Run Python with these words on one thread, with its output in the log."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join(sys.path[1:]),
    }
    subprocess.run([sys.executable, *words], check=True, stdout=log, stderr=log, env=environment)


@contextmanager
def _locked_log(run: Run) -> Iterator[IO[bytes]]:
    """Open the log of a run when no other process measures it.

    The script that trains shares the lock with its log, and outlives a kill of this process. So it
    is no lock of filelock, which no child shares.
    """
    path = run.runs / f"{run.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{run.name}: waits for the process that measures it; see {path}", flush=True)
            fcntl.flock(log, fcntl.LOCK_EX)
        yield log
