"""What a run is told, checked before anything is loaded."""

from dataclasses import dataclass
from pathlib import Path

from .embedder import DEFAULT_BATCH_TOKENS, Embedder

DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class EmbeddingJob:
    """What to embed, with what, and where to; the fields are the flags of `scripts/embed.py`.

    Attributes:
        checkpoint: A folder or a name on the Hub; of a head the base model is used.
        output: The folder of the shards.
        inputs: Files with one of `row_files.ENDINGS`, in the order of their rows.
        dataset_name: A data set on the Hub, instead of `inputs`.
        dataset_config_name: Which of its configurations.
        dataset_revision: Its commit, tag or branch.
        split: Its split.
        text_column_names: The column of texts.
        keep_columns: The columns that the output has beside the embedding; None for all.
        revision: Commit, tag or branch of the checkpoint.
        max_seq_length: Tokens after which a text is cut; None for the tokenizer's own limit.
        normalize: Whether every embedding is scaled to length 1.
        dtype: What embeddings are stored in, one of `DTYPES`.
        bf16: Whether to compute in bfloat16.
        batch_tokens: Tokens that are read at once, padding included; changes no result.
        rows_per_shard: None for shards of up to 100,000 rows and 256 MiB of embeddings.
        device: Where to compute; by default on the accelerator, if there is one.
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
    dtype: str = "float32"
    bf16: bool = False
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    rows_per_shard: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if bool(self.inputs) == (self.dataset_name is not None):
            raise ValueError(
                f"the input files are {list(self.inputs)} and --dataset_name is "
                f"{self.dataset_name!r}; give files, or a data set"
            )
        for name in ("max_seq_length", "batch_tokens", "rows_per_shard"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be 1 or more")
        if self.dtype not in DTYPES:
            raise ValueError(f"--dtype is {self.dtype!r}; allowed are {' and '.join(DTYPES)}")

    def make_embedder(self) -> Embedder:
        """Load the model."""
        return Embedder(
            self.checkpoint,
            self.revision,
            max_seq_length=self.max_seq_length,
            normalize=self.normalize,
            bf16=self.bf16,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            device=self.device,
        )


__all__ = ["DTYPES", "EmbeddingJob"]
