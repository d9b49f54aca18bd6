"""From a corpus of any size to Parquet files with its embeddings, on one or many machines."""

from .embedder import Embedder
from .run import DTYPES, PRECISIONS, EmbeddingJob, embed_corpus, embed_with_ray

__all__ = ["DTYPES", "PRECISIONS", "Embedder", "EmbeddingJob", "embed_corpus", "embed_with_ray"]
