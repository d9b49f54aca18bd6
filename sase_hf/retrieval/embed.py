"""Texts to embeddings: a function of batches of columns, and the rows of a file for it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

from ..data.batching import batches_by_length
from ..data.table import holds_texts, table
from ..models.checked_model import readable
from ..utils.errors import refusal
from ..utils.loading import load_encoder

COLUMN = "embedding"
# On a CPU larger batches do not fit the caches, smaller ones call the LSTM more often. A GPU is
# faster with more.
DEFAULT_BATCH_TOKENS = 4_096
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}


class Embedder:
    """The base model of a checkpoint, which adds the column `embedding` to batches of columns.

    `Dataset.map(Embedder(checkpoint), batched=True)` of `datasets` calls it, and `map_batches` of
    Ray Data, which makes one in each worker.

    The model computes in the `precision` "float32" or "bf16", by default on an accelerator if there
    is one, and reads at most `batch_tokens` tokens at once, padding included. ValueError: the
    checkpoint cannot be used.
    """

    def __init__(
        self,
        checkpoint: str,
        *,
        text_column_names: str = "text",
        precision: str = "float32",
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        device: str | None = None,
    ) -> None:
        self.model, self.tokenizer = load_encoder(checkpoint)
        self.size = int(self.model.config.projection_dim)
        self.text_column_names = text_column_names
        self.batch_tokens = batch_tokens
        weights = hashlib.sha256()
        for _, weight in sorted(self.model.state_dict().items()):
            weights.update(weight.contiguous().numpy())
        self.model_sha256 = weights.hexdigest()
        place = device or torch.accelerator.current_accelerator(check_available=True) or "cpu"
        torch.nn.Module.to(self.model, place, PRECISIONS[precision])

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a batch, and the embeddings of its texts."""
        return {**batch, COLUMN: self.embed(list(batch[self.text_column_names]))}

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the embeddings of texts, in their order, shape (len(texts), size)."""
        embeddings = torch.empty(len(texts), self.size)
        if not texts:
            return embeddings.numpy()
        limit = self.model.config.max_tokens
        rows = self.tokenizer(list(map(readable, texts)), verbose=False)["input_ids"]
        ids = [torch.tensor(row[:limit], dtype=torch.int32) for row in rows]
        for batch in batches_by_length(list(map(len, ids)), self.batch_tokens):
            padded = pad_sequence([ids[row] for row in batch], batch_first=True, padding_value=-1)
            padded = padded.to(self.model.device)
            output = self.model(input_ids=padded.clamp(min=0), attention_mask=padded >= 0)
            embeddings[batch] = output.sentence_embedding.float().cpu()
        return embeddings.numpy()


def open_rows(file: str, text_column_names: str) -> Dataset:
    """Return the rows of a file, mapped from the disk.

    Raises ValueError if a row has no text, or another kind of value; an empty text is one.
    """
    rows = table(file)
    if not holds_texts(rows, text_column_names):
        raise refusal(
            f"{file} has no column of texts {text_column_names!r}",
            f"choose one of {', '.join(map(repr, rows.column_names))} with --text_column_names",
        )
    row = rows.data.column(text_column_names).is_null().index(True).as_py()
    if row >= 0:
        place = f"{file}: row {row} (counted from 0), column {text_column_names!r}"
        raise ValueError(f"{place}: there is no text")
    return rows
