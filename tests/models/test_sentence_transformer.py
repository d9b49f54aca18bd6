"""Checkpoints as SentenceTransformers: the same embeddings as from the model."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import TEXTS
from sentence_transformers import SentenceTransformer
from tiny import tiny_model
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)

# Texts of many lengths, an empty one and one of an unknown word.
MANY = [*TEXTS, "", "zebra", *(" ".join(TEXTS[:count]) for count in range(1, 5))]
CHECKPOINTS: dict[str, tuple[type[PreTrainedModel], dict[str, Any]]] = {
    "base": (SelfAttentiveModel, {}),
    "classifier": (SelfAttentiveForSequenceClassification, {"num_labels": 3}),
    "nli": (SelfAttentiveForNLI, {"num_labels": 3}),
    "generalized": (SelfAttentiveModel, {"pooling": "generalized", "encoder": "cnn"}),
    "max": (SelfAttentiveModel, {"pooling": "max"}),
}
# As README.md says: of the order of float32 sums.
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of every kind, with random weights."""
    root = tmp_path_factory.mktemp("checkpoints")
    tokenizer = build_tokenizer(TEXTS, model_max_length=20)
    torch.manual_seed(0)
    for name, (model_class, fields) in CHECKPOINTS.items():
        model = tiny_model(model_class, vocab_size=len(tokenizer), **fields)
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


def load(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def embeddings(folder: Path, texts: list[str]) -> np.ndarray:
    """Return the embeddings of the base model, one text at a time."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, truncation=True, return_tensors="pt")).sentence_embedding
            for text in texts
        ]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_sentence_transformer_embeddings_equal_the_models(
    folder: Path, name: str, tmp_path: Path
) -> None:
    """In any order and batch, and bit for bit after another save; long texts are truncated."""
    encoder = load(folder / name)
    width = AutoModel.from_pretrained(folder / name).config.projection_dim
    assert (encoder.get_embedding_dimension(), encoder.max_seq_length) == (width, 20)
    expected = embeddings(folder / name, MANY)
    assert np.abs(expected).max() > 0.1
    rng = random.Random(0)
    for batch_size in (1, 3, len(MANY)):
        order = rng.sample(range(len(MANY)), len(MANY))
        found = encoder.encode([MANY[row] for row in order], batch_size=batch_size)
        np.testing.assert_allclose(found, expected[order], rtol=0, atol=TOLERANCE)
    assert len(encoder.encode([])) == 0
    encoder.save_pretrained(str(tmp_path))
    np.testing.assert_array_equal(load(tmp_path).encode(MANY), encoder.encode(MANY))
    np.testing.assert_array_equal(embeddings(tmp_path, MANY), expected)


def test_sentence_transformer_options_work_on_a_sentence_matrix(folder: Path) -> None:
    """An empty text has no direction, and a similarity must not be NaN; hops can be cut off."""
    encoder = load(folder / "base")
    found = encoder.encode([*TEXTS, ""], normalize_embeddings=True)
    similarity = encoder.similarity(found, found).numpy()
    np.testing.assert_allclose(similarity, found @ found.T, rtol=0, atol=TOLERANCE)
    assert (similarity[-1] == 0).all()
    width = 2 * AutoModel.from_pretrained(folder / "base").config.hidden_size  # two hops
    short = SentenceTransformer(str(folder / "base"), device="cpu", truncate_dim=width)
    np.testing.assert_array_equal(short.encode(TEXTS), encoder.encode(TEXTS)[:, :width])
