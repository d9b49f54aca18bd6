"""A whole run: check model, input and output first, then make shard after shard."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from transformers.utils import logging

from ..utils.errors import refusal
from ..utils.process import is_fast_in_bfloat16
from .corpus import Corpus, identify, open_files, open_hub_split
from .embedder import DEFAULT_BATCH_TOKENS, TORCH_DTYPES, Embedder
from .shards import COLUMN, Shard, list_shards, read_manifest, write_manifest

logger = logging.get_logger(__name__)

DTYPES = ("float32", "float16")
PRECISIONS = tuple(TORCH_DTYPES)
# Sizes of shards by default: enough shards to share among processes, each with enough rows to fill
# batches with texts of similar length, and with embeddings that fit into memory.
NUM_SHARDS, MIN_ROWS, MAX_ROWS = 16, 1_000, 100_000
MAX_BYTES = 2**28  # of the embeddings in a shard
# A run that continues a folder must repeat these fields, the model and the input.
SETTINGS = (
    *("text_column_names", "keep_columns", "max_seq_length", "normalize", "dtype"),
    *("precision", "rows_per_shard"),
)
# Of these, a run may leave these to the folder, and the first run of a folder chooses them.
LEFT_TO_THE_FOLDER = ("precision", "rows_per_shard")


@dataclass(frozen=True)
class EmbeddingJob:
    """The settings of a run; `scripts/embed.py --help` explains the fields, which are its flags."""

    checkpoint: str
    output: Path
    inputs: tuple[str, ...] = ()
    dataset_name: str | None = None
    dataset_config_name: str | None = None
    dataset_revision: str | None = None
    split: str = "train"
    text_column_names: str = "text"
    keep_columns: tuple[str, ...] | None = None
    revision: str | None = None
    max_seq_length: int | None = None
    normalize: bool = False
    dtype: str = DTYPES[0]
    precision: str | None = None
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    rows_per_shard: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the values before anything is loaded."""
        if bool(self.inputs) == (self.dataset_name is not None):
            given = f"files are {list(self.inputs)} and --dataset_name is {self.dataset_name!r}"
            raise ValueError(f"the input {given}; give either files or a dataset")
        for name in ("max_seq_length", "batch_tokens", "rows_per_shard"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be 1 or more")
        for name, allowed in (("dtype", DTYPES), ("precision", (None, *PRECISIONS))):
            value = getattr(self, name)
            if value not in allowed:
                names = ", ".join(filter(None, allowed))
                raise ValueError(f"--{name} is {value!r}; allowed are {names}")


class EmbeddingRun:
    """A job with checked model, input and output folder; `shards` are all, finished or not."""

    def __init__(self, job: EmbeddingJob) -> None:
        self.job = job
        options = ("max_seq_length", "normalize", "dtype", "batch_tokens", "device")
        self.embedder = Embedder(
            job.checkpoint, job.revision, **{name: getattr(job, name) for name in options}
        )
        source: Mapping[str, object] = {"files": [identify(file) for file in job.inputs]}
        if job.dataset_name is not None:
            self.corpus, source = open_hub_split(
                job.dataset_name, job.dataset_config_name, job.dataset_revision, job.split
            )
        left_open = [name for name in LEFT_TO_THE_FOLDER if getattr(job, name) is None]
        given = {name: getattr(job, name) for name in SETTINGS if name not in left_open}
        wanted = {"model": self.embedder.identity, "input": source, "settings": given}
        # If processes start at the same time, the first to write decides for all.
        while (manifest := read_manifest(job.output, wanted)) is None:
            description = self._describe()
            chosen = {"settings": {**self._choose(), **given}}
            write_manifest(job.output, {**description, **wanted, **chosen})
        settings = manifest["settings"]
        if job.precision is None:
            logger.info(f"precision: {settings['precision']}")
        self.embedder.set_precision(settings["precision"])
        self.shards = list_shards(job.output, manifest["rows"], settings["rows_per_shard"])

    @cached_property
    def corpus(self) -> Corpus:
        """The rows; files are opened on first use, and a finished run never opens them."""
        return open_files(self.job.inputs, self.job.text_column_names, self.job.keep_columns)

    @property
    def kept(self) -> list[str]:
        """The columns of the input that the output has too."""
        given = self.job.keep_columns
        return self.corpus.schema.names if given is None else list(dict.fromkeys(given))

    def _describe(self) -> dict[str, object]:
        """Check the input; return the part of the manifest that no run compares."""
        self.corpus.check_columns(self.job.text_column_names, self.kept)
        if COLUMN in self.kept:
            raise ValueError(f"the input has a column {COLUMN!r}; leave it out with --keep_columns")
        folder = Path(self.job.checkpoint)
        name = folder.resolve().name if folder.is_dir() else self.job.checkpoint
        checkpoint = {"name": name, "revision": self.embedder.revision}
        size = self.embedder.size
        return {"rows": self.corpus.num_rows, "embedding_size": size, "checkpoint": checkpoint}

    def _choose(self) -> dict[str, object]:
        """Return what a job may leave open of the settings of a new folder."""
        bytes_per_row = self.embedder.size * self.embedder.dtype.itemsize
        rows = max(math.ceil(self.corpus.num_rows / NUM_SHARDS), MIN_ROWS)
        rows = max(min(rows, MAX_ROWS, MAX_BYTES // bytes_per_row), 1)
        is_on_cpu = self.embedder.model.device.type == "cpu"
        precision = "bf16" if is_fast_in_bfloat16(use_cpu=is_on_cpu) else "float32"
        return {"precision": precision, "rows_per_shard": rows}

    def make(self, shard: Shard, progress: Callable[[int], object] | None = None) -> int:
        """Embed the rows of a shard and write it; return their number."""
        text, kept = self.job.text_column_names, self.kept
        table = self.corpus.read(shard.start, shard.stop, list(dict.fromkeys([text, *kept])))
        embeddings = self.embedder(table[text].to_pylist(), progress)
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if bad.size:
            raise refusal(
                f"row {shard.start + bad[0]} of the input (counted from 0): its embedding is not "
                f"finite in {self.job.dtype}",
                "name another --output with --precision float32, and leave --dtype out",
                FloatingPointError,
            )
        shard.write(table.select(kept), embeddings)
        return len(shard)

    def close(self) -> tuple[int, int]:
        """Return how many shards are finished, and how many there are.

        Once all are, the drafts of killed processes are removed.
        """
        num_finished = sum(shard.is_finished() for shard in self.shards)
        if num_finished == len(self.shards):
            for path in self.job.output.glob(".embeddings-*.tmp"):
                path.unlink(missing_ok=True)
        return num_finished, len(self.shards)


def embed_corpus(job: EmbeddingJob, process: int = 0, processes: int = 1) -> tuple[int, int]:
    """Embed a corpus, or as one of several processes a part of it; continue where a run stopped.

    Process i of n, counted from 0, makes the shards i, i + n, ..., without contact to the others.
    Returns how many shards are finished, those of the others included, and how many there are.

    Raises ValueError if model, input or settings cannot be used, or the folder holds embeddings of
    other settings; OSError for files; FloatingPointError if an embedding is not finite.
    """
    run = EmbeddingRun(job)
    shards = run.shards[process::processes]
    name = "Embedding" if processes == 1 else f"Embedding, process 1 of {processes}"
    with _progress_bar(name, shards, is_hidden=process > 0) as (bar, missing):
        for shard in missing:
            run.make(shard, bar.update)
    return run.close()


def embed_with_ray(job: EmbeddingJob, address: str | None = None) -> tuple[int, int]:
    """Embed on a Ray cluster; this and `embed_corpus` continue where the other stopped.

    All machines must see input and output. One actor works on each GPU, or on each core without a
    GPU. `address` is that of `ray.init`; leave it out after a `ray.init` of your own. Returns what
    `embed_corpus` does.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send them over the network
    try:
        import ray
        from ray.util import ActorPool
    except ImportError as reason:
        raise ImportError("--ray needs Ray: pip install 'sase_hf[ray]'") from reason

    inputs = tuple(map(os.path.abspath, job.inputs))  # an actor may start in another folder
    job = replace(job, inputs=inputs, output=job.output.absolute())
    if os.path.isdir(job.checkpoint):
        job = replace(job, checkpoint=os.path.abspath(job.checkpoint))
    run = EmbeddingRun(job)
    with _progress_bar("Embedding with Ray", run.shards) as (bar, missing), ExitStack() as stack:
        if missing:
            if not ray.is_initialized():
                stack.enter_context(ray.init(address=address, include_dashboard=False))
            resources = ray.cluster_resources()
            gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
            options: dict[str, object] = {"num_cpus": 1, "num_gpus": 1 if gpus else 0}
            options |= {"max_restarts": -1, "max_task_retries": -1}  # if a machine is lost
            make_actor: Any = ray.remote(EmbeddingRun)
            actors = [make_actor.options(**options).remote(job) for _ in missing[: gpus or cores]]
            pool = ActorPool(actors)
            for rows in pool.map_unordered(lambda actor, shard: actor.make.remote(shard), missing):
                bar.update(rows)
    return run.close()


@contextmanager
def _progress_bar(
    name: str, shards: Sequence[Shard], *, is_hidden: bool = False
) -> Iterator[tuple[Any, list[Shard]]]:
    """Yield a bar that counts rows, those of finished shards at once, and the missing shards."""
    missing = [shard for shard in shards if not shard.is_intact()]
    total = sum(map(len, shards))
    done = total - sum(map(len, missing))
    options = {"total": total, "initial": done, "unit": " rows", "disable": is_hidden}
    with logging.tqdm(desc=name, **options) as bar:
        yield bar, missing
