"""The shards of a run on a Ray cluster: each actor has the model and makes a shard at a time."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from transformers.utils import logging as transformers_logging

from .job import EmbeddingJob
from .run import EmbeddingRun
from .shards import is_finished


class ShardMaker:
    """An actor; makes the shards whose numbers it is given.

    Args:
        job: What all actors work on.
    """

    def __init__(self, job: EmbeddingJob) -> None:
        self.run = EmbeddingRun(job, is_first=False)

    def __call__(self, batch: dict[str, npt.NDArray[np.int64]]) -> dict[str, list[int]]:
        """Return how many rows each shard has."""
        shards = [self.run.shards[number] for number in batch["item"]]
        for shard in shards:
            self.run.make(shard)
        return {"rows": [len(shard) for shard in shards]}


def embed_with_ray(job: EmbeddingJob, address: str | None = None) -> None:
    """Embed a corpus on a Ray cluster, one actor for each GPU, or for each core if it has none.

    Input and output must lie where every machine of the cluster sees them. Shards and manifest are
    those of `embed_corpus`, so either can go on where the other stopped.

    Args:
        job: What to do.
        address: Of the cluster, as `ray.init` takes it; None starts one on this machine, unless the
            environment names one. A program that has called `ray.init` itself needs none.

    Raises:
        ImportError: If Ray is not installed.
        ValueError: As for `embed_corpus`.
        OSError: As for `embed_corpus`.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send them over the network
    try:
        import ray.data
    except ImportError as reason:
        raise ImportError("--ray needs Ray Data: pip install 'sase_hf[ray]'") from reason

    run = EmbeddingRun(_absolute(job), is_first=True)
    numbers = [number for number, shard in enumerate(run.shards) if not is_finished(shard)]
    run.announce([run.shards[number] for number in numbers])
    if numbers:
        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(address=address, include_dashboard=False)
        try:
            _make_shards(run, numbers)
        finally:
            if is_ours:
                ray.shutdown()
    run.tidy()


def _make_shards(run: EmbeddingRun, numbers: list[int]) -> None:
    """Let actors make these shards, under a progress bar."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False  # ours counts rows
    resources = ray.cluster_resources()
    gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    # One block, and so one task, for each shard; else one actor would get them all.
    made = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
        ShardMaker,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(len(numbers), gpus or cores)),
        num_cpus=1,
        num_gpus=1 if gpus else 0,
        fn_constructor_args=[run.job],
    )
    total = sum(map(len, run.shards))
    left = sum(len(run.shards[number]) for number in numbers)
    with transformers_logging.tqdm(
        total=total, initial=total - left, desc="Embedding with Ray", unit=" rows"
    ) as bar:
        for row in made.iter_rows():
            bar.update(int(row["rows"]))


def _absolute(job: EmbeddingJob) -> EmbeddingJob:
    """Return a job that means the same in whichever folder an actor starts."""
    checkpoint = Path(job.checkpoint)
    return replace(
        job,
        checkpoint=str(checkpoint.absolute()) if checkpoint.is_dir() else job.checkpoint,
        output=job.output.absolute(),
        inputs=tuple(str(Path(file).absolute()) for file in job.inputs),
    )


__all__ = ["ShardMaker", "embed_with_ray"]
