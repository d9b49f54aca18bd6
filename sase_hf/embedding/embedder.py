"""Texts -> embeddings, in batches that hold at most a number of tokens."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence

from ..data.batching import batches_by_length
from ..data.tokenizer import cut_texts, truncation
from ..utils.loading import load_encoder

# On a CPU larger batches do not fit the caches, smaller ones call the LSTM more often. A GPU is
# faster with more.
DEFAULT_BATCH_TOKENS = 4_096
TEXTS_PER_CALL = 10_000  # the tokenizer's lists of Python integers take much memory
# Config fields that do not affect embeddings.
_UNRELATED_FIELDS = {"_name_or_path", "architectures", "auto_map", "custom_pipelines", "dtype"}
_UNRELATED_FIELDS |= {"score_mode", "score_temperature", "transformers_version"}

TORCH_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}

Embeddings = npt.NDArray[np.floating]


class Embedder:
    """The base model of a checkpoint, ready to embed many texts.

    Texts are cut after `max_seq_length` tokens, by default the tokenizer's own limit. `normalize`
    scales embeddings to length 1; the embedding of a text without tokens stays zero. The model
    computes in float32, or as `set_precision` says, on the accelerator of this process if there is
    one; the embeddings have the `dtype` "float32" or "float16". A batch has at most `batch_tokens`
    tokens, padding included. ValueError: checkpoint or device cannot be used.
    """

    def __init__(
        self,
        checkpoint: str,
        revision: str | None = None,
        *,
        max_seq_length: int | None = None,
        normalize: bool = False,
        dtype: str = "float32",
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        device: str | None = None,
    ) -> None:
        self.model, self.tokenizer = load_encoder(checkpoint, revision)
        commit = getattr(self.model.config, "_commit_hash", None)
        self.revision: str | None = commit or revision
        self.size = int(self.model.config.projection_dim)
        self.dtype = np.dtype(dtype)
        self.normalize, self.batch_tokens = normalize, batch_tokens
        self._cut = truncation(self.tokenizer, max_seq_length)
        self.identity = self._identify()
        try:
            place = torch.device(device) if device else _own_device()
            torch.nn.Module.to(self.model, place)
        except (RuntimeError, AssertionError) as reason:
            raise ValueError(f"cannot compute on device {device!r}: {reason}") from reason

    def set_precision(self, precision: str) -> None:
        """Compute in "float32" or "bf16" from now on; digits that bf16 drops do not come back."""
        torch.nn.Module.to(self.model, TORCH_DTYPES[precision])

    def _identify(self) -> dict[str, str]:
        """Return the SHA-256 of config, tokenizer and weights: all that embeddings depend on."""
        config: dict[str, object] = self.model.config.to_dict()
        kept = {name: value for name, value in config.items() if name not in _UNRELATED_FIELDS}
        weights = hashlib.sha256()
        for name, weight in sorted(self.model.state_dict().items()):
            weights.update(name.encode())
            weights.update(weight.contiguous().numpy())
        tokenizer = _content_of(self.tokenizer.backend_tokenizer)
        cut = json.dumps([self.tokenizer.model_max_length, self.tokenizer.truncation_side])
        return {
            "config_sha256": hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest(),
            "tokenizer_sha256": hashlib.sha256((tokenizer + cut).encode()).hexdigest(),
            "weights_sha256": weights.hexdigest(),
        }

    def __call__(
        self, texts: Sequence[str], progress: Callable[[int], object] | None = None
    ) -> Embeddings:
        """Return the embeddings of texts, in their order, shape (len(texts), size).

        `progress` is called after each batch with the number of its texts.
        """
        ids: list[torch.Tensor] = []
        for at in range(0, len(texts), TEXTS_PER_CALL):
            part = texts[at : at + TEXTS_PER_CALL]
            [needed] = cut_texts(self.tokenizer, [part], self._cut.get("max_length"))
            encoded = self.tokenizer(needed, **self._cut)
            ids += (torch.tensor(row, dtype=torch.int32) for row in encoded["input_ids"])
        embeddings = np.empty((len(texts), self.size), self.dtype)
        # The states of this number of tokens take as much memory as an embedding.
        least = self.size // self.model.config.hidden_size
        for rows in batches_by_length([len(row) for row in ids], self.batch_tokens, least):
            with np.errstate(over="ignore"):  # a number too large for float16 becomes infinite
                embeddings[rows] = self._embed([ids[row] for row in rows])
            if progress is not None:
                progress(len(rows))
        return embeddings

    @torch.inference_mode()
    def _embed(self, ids: Sequence[torch.Tensor]) -> npt.NDArray[np.float32]:
        lengths = torch.tensor([len(row) for row in ids])
        padded = pad_sequence(list(ids), batch_first=True)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        device = self.model.device
        output = self.model(input_ids=padded.to(device), attention_mask=mask.to(device))
        embedding = output.sentence_embedding.float()
        return (F.normalize(embedding) if self.normalize else embedding).cpu().numpy()


def _content_of(tokenizer: Tokenizer) -> str:
    """Return a tokenizer as JSON, without the cut and the padding that its last call left in it."""
    stateless = deepcopy(tokenizer)
    stateless.no_truncation()
    stateless.no_padding()
    return stateless.to_str()


def _own_device() -> torch.device:
    """Return the accelerator of this process; processes on one machine get one each."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", 0)) % torch.accelerator.device_count()
    return torch.device(accelerator.type, number)
