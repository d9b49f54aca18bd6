"""A corpus of any size -> sharded Parquet files with its embeddings, on one machine or many."""

from .embedder import Embedder
from .job import DTYPES, EmbeddingJob
from .ray_cluster import embed_with_ray
from .run import embed_corpus

__all__ = ["DTYPES", "Embedder", "EmbeddingJob", "embed_corpus", "embed_with_ray"]
