"""A whole run: check model, input and output first, then make shard after shard."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers.utils import logging as transformers_logging

from .corpus import Corpus, identify, open_files, open_hub_split
from .embedder import DEFAULT_BATCH_TOKENS, Embedder
from .shards import (
    COLUMN,
    Shard,
    default_rows_per_shard,
    list_shards,
    read_manifest,
    write_manifest,
)

logger = logging.getLogger(__name__)

DTYPES = ("float32", "float16")
# All that an output folder must have in common, beside model, input and rows of a shard.
SETTINGS = ("text_column_names", "keep_columns", "max_seq_length", "normalize", "dtype", "bf16")
SAMPLE_ROWS = 1000  # from which the size of the kept columns is estimated


@dataclass(frozen=True)
class EmbeddingJob:
    """The settings of a run; `scripts/embed.py --help` explains the fields, which are its flags.

    `inputs` are files with one of `data.files.ENDINGS`, in the order of their rows. None stands for
    all `keep_columns`, the tokenizer's own `max_seq_length`, shards of up to 100,000 rows and 256
    MiB of embeddings, and the accelerator, if there is one, as `device`.
    """

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
    bf16: bool = False
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    rows_per_shard: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the values before anything is loaded."""
        if bool(self.inputs) == (self.dataset_name is not None):
            raise ValueError(
                f"the input files are {list(self.inputs)} and --dataset_name is "
                f"{self.dataset_name!r}; give either files or a dataset"
            )
        for name in ("max_seq_length", "batch_tokens", "rows_per_shard"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be 1 or more")
        if self.dtype not in DTYPES:
            raise ValueError(f"--dtype is {self.dtype!r}; allowed are {' and '.join(DTYPES)}")


class EmbeddingRun:
    """A job whose model, input and output folder are checked.

    The first process writes the manifest; others wait for it. `shards` are all, finished or not.
    """

    def __init__(self, job: EmbeddingJob, *, is_first: bool) -> None:
        self.job = job
        options = ("max_seq_length", "normalize", "bf16", "dtype", "batch_tokens", "device")
        self.embedder = Embedder(
            job.checkpoint, job.revision, **{name: getattr(job, name) for name in options}
        )
        source: dict[str, Any] = {"files": [identify(file) for file in job.inputs]}
        if job.dataset_name is not None:
            self.corpus, source = open_hub_split(
                job.dataset_name, job.dataset_config_name, job.dataset_revision, job.split
            )
        self.bytes_per_row = self.embedder.size * self.embedder.dtype.itemsize
        rows_per_shard = job.rows_per_shard or default_rows_per_shard(self.bytes_per_row)
        settings = {name: getattr(job, name) for name in SETTINGS}
        settings["rows_per_shard"] = rows_per_shard
        wanted = {"model": self.embedder.identity, "input": source, "settings": settings}
        manifest = read_manifest(job.output, wanted)
        if manifest is None and is_first:
            manifest = {**self._describe(), **wanted}
            write_manifest(job.output, manifest)
        elif manifest is None:
            self._describe()  # so that every process finds faults of the input, and none waits on
        while manifest is None:
            time.sleep(0.1)
            manifest = read_manifest(job.output, wanted)
        self.shards = list_shards(job.output, manifest["rows"], rows_per_shard)

    def _describe(self) -> dict[str, Any]:
        """Check the input; return what the manifest tells its readers."""
        self.corpus.check_columns(self.job.text_column_names, self.kept)
        if COLUMN in self.kept:
            raise ValueError(f"the input has a column {COLUMN!r}; leave it out with --keep_columns")
        folder = Path(self.job.checkpoint)
        name = folder.resolve().name if folder.is_dir() else self.job.checkpoint
        checkpoint = {"name": name, "revision": self.embedder.revision}
        size = self.embedder.size
        return {"rows": self.corpus.num_rows, "embedding_size": size, "checkpoint": checkpoint}

    @cached_property
    def corpus(self) -> Corpus:
        """The rows; files are opened on first use, and a finished run never opens them."""
        return open_files(self.job.inputs, self.job.text_column_names, self.job.keep_columns)

    @property
    def kept(self) -> list[str]:
        """The columns of the input that the output has too."""
        given = self.job.keep_columns
        return self.corpus.schema.names if given is None else list(dict.fromkeys(given))

    def missing(self) -> set[Shard]:
        """Return the shards that are not finished."""
        return {shard for shard in self.shards if not shard.is_finished()}

    def check_disk_space(self, missing: Collection[Shard]) -> None:
        """Log the size of the output, and raise OSError if the disk has no room for the missing."""
        output, rows = self.job.output, sum(map(len, self.shards))
        size, done = _size(rows * self.bytes_per_row), len(self.shards) - len(missing)
        message = "%s rows in %d shards, %d of them finished; the embeddings take %s in all"
        logger.info(message, f"{rows:,}", len(self.shards), done, size)
        if not missing:
            return
        kept_per_row = 0.0
        if self.kept:
            sample = self.corpus.read(0, min(SAMPLE_ROWS, rows), self.kept)
            kept_per_row = sample.nbytes / sample.num_rows
        needed = sum(map(len, missing)) * (self.bytes_per_row + kept_per_row)
        free = shutil.disk_usage(output).free
        if needed > free:
            raise OSError(
                f"the output needs {_size(needed)}, and {output} has {_size(free)} left; name "
                "another --output, store --dtype float16, or keep fewer columns with --keep_columns"
            )

    def make(self, shard: Shard, progress: Callable[[int], object] | None = None) -> None:
        """Embed the rows of a shard and write it; `progress` gets the rows of each batch."""
        text, kept = self.job.text_column_names, self.kept
        table = self.corpus.read(shard.start, shard.stop, list(dict.fromkeys([text, *kept])))
        embeddings = self.embedder(table[text].to_pylist(), progress)
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if bad.size:
            raise FloatingPointError(
                f"{self.corpus.place(shard.start + int(bad[0]))}: its embedding is not finite in "
                f"{self.job.dtype}; leave --dtype and --bf16 at their defaults"
            )
        shard.write(table.select(kept), embeddings)

    def remove_drafts(self) -> None:
        """Remove what killed processes left, once all shards are finished."""
        if not self.missing():
            for path in self.job.output.glob(".embeddings-*.tmp"):
                path.unlink(missing_ok=True)


def embed_corpus(job: EmbeddingJob, process: int = 0, processes: int = 1) -> None:
    """Embed a corpus, or as one of several processes a part of it; continue where a run stopped.

    Process i of n, counted from 0, makes the shards i, i + n, ... It needs no connection to the
    others, only the same files and output folder.

    Raises:
        ValueError: If model, input or settings cannot be used, or the folder holds embeddings of
            other settings.
        OSError: If a file is missing, or the disk has too little room for the output.
        FloatingPointError: If an embedding is not finite.
    """
    run = EmbeddingRun(job, is_first=process == 0)
    missing = run.missing()
    if process == 0:
        run.check_disk_space(missing)
    own = [shard for shard in run.shards[process::processes] if shard in missing]
    name = "Embedding" if processes == 1 else f"Embedding, process 1 of {processes}"
    total = sum(map(len, run.shards[process::processes]))
    with _progress_bar(total, own, name, is_hidden=process > 0) as bar:
        for shard in own:
            run.make(shard, bar.update)
    run.remove_drafts()


class ShardMaker:
    """An actor on a Ray cluster; makes the shards whose numbers it gets."""

    def __init__(self, job: EmbeddingJob) -> None:
        self.run = EmbeddingRun(job, is_first=False)

    def __call__(self, batch: dict[str, npt.NDArray[np.int64]]) -> dict[str, list[int]]:
        """Return the number of rows of each shard."""
        shards = [self.run.shards[number] for number in batch["item"]]
        for shard in shards:
            self.run.make(shard)
        return {"rows": [len(shard) for shard in shards]}


def embed_with_ray(job: EmbeddingJob, address: str | None = None) -> None:
    """Embed a corpus on a Ray cluster, one actor for each GPU, or for each core without a GPU.

    All machines of the cluster must see input and output. Shards and manifest are those of
    `embed_corpus`, so either can continue where the other stopped.

    Args:
        job: The settings.
        address: As `ray.init` takes it; not needed after a `ray.init` of your own.

    Raises:
        ImportError: If Ray is not installed; other errors are those of `embed_corpus`.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send them over the network
    try:
        import ray.data
    except ImportError as reason:
        raise ImportError("--ray needs Ray Data: pip install 'sase_hf[ray]'") from reason

    is_folder = Path(job.checkpoint).is_dir()
    job = replace(  # an actor may start in another folder
        job,
        checkpoint=str(Path(job.checkpoint).absolute()) if is_folder else job.checkpoint,
        output=job.output.absolute(),
        inputs=tuple(str(Path(file).absolute()) for file in job.inputs),
    )
    run = EmbeddingRun(job, is_first=True)
    missing = run.missing()
    numbers = [number for number, shard in enumerate(run.shards) if shard in missing]
    run.check_disk_space(missing)
    if numbers:
        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(address=address, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False  # ours counts rows
        resources = ray.cluster_resources()
        gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        # One block, and so one task, for each shard; with fewer, one actor would get them all.
        made = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            ShardMaker,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(len(numbers), gpus or cores)),
            num_cpus=1,
            num_gpus=1 if gpus else 0,
            fn_constructor_args=[job],
        )
        try:
            total = sum(map(len, run.shards))
            with _progress_bar(total, missing, "Embedding with Ray") as bar:
                for row in made.iter_rows():
                    bar.update(int(row["rows"]))
        finally:
            if is_ours:
                ray.shutdown()
    run.remove_drafts()


def _progress_bar(
    total: int, missing: Collection[Shard], name: str, *, is_hidden: bool = False
) -> Any:
    """Return a bar that counts rows, those of finished shards at once."""
    initial = total - sum(map(len, missing))
    return transformers_logging.tqdm(
        total=total, initial=initial, desc=name, unit=" rows", disable=is_hidden
    )


def _size(count: float) -> str:
    """Return a number of bytes in GB or MB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


__all__ = ["DTYPES", "EmbeddingJob", "embed_corpus", "embed_with_ray"]
