"""A whole run: look at everything first, say what will come, then make shard after shard."""

import logging
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from transformers.utils import logging as transformers_logging

from .corpus import Corpus, HubCorpus, ParquetCorpus, check_columns
from .files import COPY_PREFIX, identify, parquet_files
from .job import EmbeddingJob
from .shards import (
    COLUMN,
    Shard,
    check_same,
    is_finished,
    list_shards,
    read_manifest,
    usual_rows,
    write_manifest,
    write_shard,
)

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 1000  # from which the size of the kept columns is estimated
SECONDS_BETWEEN_LOOKS = 0.1


class EmbeddingRun:
    """A job whose model and input have been looked at, and its shards.

    Args:
        job: The job.
        is_first: Whether this process checks and copies the input and writes the manifest; others
            wait until that is done.

    Attributes:
        shards: All of them, those that are there already too.

    Raises:
        ValueError: If model, input or settings cannot be used, or the folder holds embeddings that
            were made otherwise.
        OSError: If a file is missing.
    """

    def __init__(self, job: EmbeddingJob, *, is_first: bool) -> None:
        self.job = job
        self.is_first = is_first
        self.embedder = job.make_embedder()
        self._corpus: Corpus | None = None
        self._identities = [identify(file) for file in job.inputs]
        source: dict[str, Any] = {"files": self._identities}
        if job.dataset_name is not None:
            options = (job.dataset_config_name, job.dataset_revision, job.split)
            self._corpus = hub = HubCorpus(job.dataset_name, *options)
            source = hub.identity
        self.bytes_per_row = self.embedder.size * self.embedder.dtype.itemsize
        rows_per_shard = job.rows_per_shard or usual_rows(self.bytes_per_row)
        manifest = self._agree(self._manifest(source, rows_per_shard))
        self.shards = list_shards(job.output, manifest["rows"], rows_per_shard)

    def _manifest(self, source: dict[str, Any], rows_per_shard: int) -> dict[str, Any]:
        """Return all that embeddings in one folder must have in common."""
        job = self.job
        return {
            "model": self.embedder.identity,
            "input": source,
            "settings": {
                "text_column_names": job.text_column_names,
                "keep_columns": None if job.keep_columns is None else list(job.keep_columns),
                "max_seq_length": job.max_seq_length,
                "normalize": job.normalize,
                "dtype": job.dtype,
                "bf16": job.bf16,
                "rows_per_shard": rows_per_shard,
            },
        }

    def _agree(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest of the folder; write it, after a look at the rows, if it is new."""
        folder = self.job.output
        manifest = read_manifest(folder)
        while manifest is None and not self.is_first:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            manifest = read_manifest(folder)
        if manifest is not None:
            check_same(folder, manifest, wanted)
            return manifest
        corpus = self.corpus
        check_columns(corpus, self.job.text_column_names, self.kept)
        if COLUMN in self.kept:
            raise ValueError(
                f"the input has a column {COLUMN!r} of its own; leave it out with --keep_columns"
            )
        checkpoint = Path(self.job.checkpoint)
        name = checkpoint.resolve().name if checkpoint.is_dir() else self.job.checkpoint
        manifest = {
            "rows": corpus.num_rows,
            "embedding_size": self.embedder.size,
            "checkpoint": {"name": name, "revision": self.embedder.revision},
            **wanted,
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_manifest(folder, manifest)
        return manifest

    @property
    def corpus(self) -> Corpus:
        """The rows; opened when they are first needed, which a finished run never does."""
        if self._corpus is None:
            job = self.job
            files = parquet_files(
                job.inputs,
                self._identities,
                job.output,
                job.text_column_names,
                job.keep_columns,
                is_first=self.is_first,
            )
            self._corpus = ParquetCorpus(files)
        if self._corpus.num_rows == 0:
            raise ValueError("the input has no rows; name other files, or another data set")
        return self._corpus

    @property
    def kept(self) -> list[str]:
        """The columns of the input that the output has as well."""
        given = self.job.keep_columns
        return list(dict.fromkeys(self.corpus.schema.names if given is None else given))

    def announce(self, missing: Collection[Shard]) -> None:
        """Say how much there will be, and raise OSError if there is no room for it.

        Args:
            missing: The shards that are not there yet.
        """
        job, rows = self.job, sum(map(len, self.shards))
        done = len(self.shards) - len(missing)
        logger.info(
            "%s rows in %d shards, %d of them finished", f"{rows:,}", len(self.shards), done
        )
        logger.info(
            "%s numbers of type %s in an embedding, %s in all",
            f"{self.embedder.size:,}",
            job.dtype,
            _size(rows * self.bytes_per_row),
        )
        if not missing:
            return
        corpus = self.corpus  # opened here also if nothing is kept: other processes wait for copies
        kept_per_row = 0.0
        if self.kept:
            sample = corpus.read(0, min(SAMPLE_ROWS, rows), self.kept)
            kept_per_row = sample.nbytes / sample.num_rows
            logger.info("the other columns take at most about %s", _size(rows * kept_per_row))
        needed = sum(map(len, missing)) * (self.bytes_per_row + kept_per_row)
        free = shutil.disk_usage(job.output).free
        if needed > free:
            raise OSError(
                f"the output needs {_size(needed)}, and {job.output} has {_size(free)} left; make "
                "room, name another --output, store --dtype float16, or keep fewer columns with "
                "--keep_columns"
            )

    def make(self, shard: Shard, progress: Callable[[int], object] | None = None) -> None:
        """Embed the rows of a shard and write it.

        Args:
            shard: One of the shards.
            progress: Is told after each batch how many rows were in it.

        Raises:
            FloatingPointError: If an embedding is no finite number.
            OSError: If the shard cannot be written.
        """
        text, kept = self.job.text_column_names, self.kept
        table = self.corpus.read(shard.start, shard.stop, list(dict.fromkeys([text, *kept])))
        embeddings = self.embedder(table[text].to_pylist(), progress)
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if bad.size:
            raise FloatingPointError(
                f"{self.corpus.place(shard.start + int(bad[0]))}: its embedding is no finite "
                f"number in {self.job.dtype}; leave --dtype and --bf16 at their defaults, or name "
                "another checkpoint"
            )
        write_shard(shard, table.select(kept), embeddings)

    def tidy(self) -> None:
        """Remove what was only needed on the way, once all shards are there."""
        if all(map(is_finished, self.shards)):
            for path in self.job.output.glob(f"{COPY_PREFIX}*"):
                shutil.rmtree(path, ignore_errors=True)
            for path in self.job.output.glob(".embeddings-*.tmp"):
                path.unlink(missing_ok=True)


def _size(count: float) -> str:
    """Return a number of bytes as people say it."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def embed_corpus(job: EmbeddingJob, process: int = 0, processes: int = 1) -> None:
    """Embed a corpus, or as one of several processes a part of it; go on where a run stopped.

    Every process takes every so many-th shard and needs no connection to the others, only the same
    files and output folder.

    Args:
        job: What to do.
        process: The number of this process, from 0 on.
        processes: How many there are.

    Raises:
        ValueError: If model, input or settings cannot be used, or the folder holds embeddings that
            were made otherwise.
        OSError: If a file is missing, or there is too little room for the output.
        FloatingPointError: If an embedding is no finite number.
    """
    is_first = process == 0
    run = EmbeddingRun(job, is_first=is_first)
    own = run.shards[process::processes]
    missing = {shard for shard in (run.shards if is_first else own) if not is_finished(shard)}
    if is_first:
        run.announce(missing)
    own_missing = [shard for shard in own if shard in missing]
    total, left = sum(map(len, own)), sum(map(len, own_missing))
    name = "Embedding" if processes == 1 else f"Embedding, process 1 of {processes}"
    with transformers_logging.tqdm(
        total=total, initial=total - left, desc=name, unit=" rows", disable=not is_first
    ) as bar:
        for shard in own_missing:
            run.make(shard, bar.update)
    run.tidy()


__all__ = ["EmbeddingRun", "embed_corpus"]
