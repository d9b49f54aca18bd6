"""Checkpoints as SentenceTransformers: the same embeddings, whatever is done with them.

That strangers can load them so, from a folder and by name, is in `test_remote_code.py` and
`test_loopback.py`.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from checkpoints import TEXTS
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.results.task_result import TaskError
from sentence_transformers import SentenceTransformer
from tiny import tiny_model
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)

# What mteb calls by names that have been given up, its own and sentence_transformers'.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The fill_missing parameter is dep:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dim:FutureWarning"),
]

# Texts of unlike lengths, an empty one and one of an unknown word among them.
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

# Encodes in two processes, all three of them without the package.
POOL = """
import json, sys
import numpy as np
sys.modules["sase_hf"] = None  # importing it now fails
from sentence_transformers import SentenceTransformer

folder, output, texts = sys.argv[1:]
encoder = SentenceTransformer(folder, device="cpu", trust_remote_code=True)
said = encoder.encode(json.loads(texts), device=["cpu", "cpu"], chunk_size=4)
assert type(encoder[0].auto_model).__module__.startswith("transformers_modules.")
np.save(output, said)
"""


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
    """Load a checkpoint the way the README does with the package."""
    return SentenceTransformer(str(folder), device="cpu")


def embeddings(folder: Path, texts: list[str]) -> np.ndarray:
    """Return what the base model says of each text on its own."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, truncation=True, return_tensors="pt")).sentence_embedding
            for text in texts
        ]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_sentence_transformer_embeddings_equal_the_models(folder: Path, name: str) -> None:
    """In any order and batch, an empty text among them; a text that is too long is cut once."""
    encoder = load(folder / name)
    expected = embeddings(folder / name, MANY)
    assert np.abs(expected).max() > 0.1, "the premise: there is something to compare"
    rng = random.Random(0)
    for batch_size in (1, 3, len(MANY)):
        order = rng.sample(range(len(MANY)), len(MANY))
        said = encoder.encode([MANY[row] for row in order], batch_size=batch_size)
        np.testing.assert_allclose(said, expected[order], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(encoder.encode(MANY[0]), expected[0], rtol=0, atol=TOLERANCE)
    assert len(encoder.encode([])) == 0


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_sentence_transformer_reports_its_sizes(folder: Path, name: str) -> None:
    """An index or a layer on top is made for the width that is reported, before any text is."""
    encoder = load(folder / name)
    config = AutoModel.from_pretrained(folder / name).config
    width = encoder.get_embedding_dimension()
    assert width == config.num_rows * config.hidden_size == config.projection_dim
    assert encoder.encode("Good!").shape == (width,)
    assert encoder.max_seq_length == 20
    meta = SentenceTransformerEncoderWrapper(encoder).mteb_model_meta
    assert (meta.embed_dim, meta.max_tokens) == (width, 20)


def test_sentence_transformer_similarity_is_the_cosine(folder: Path) -> None:
    """Also of an empty text, which has no direction and must not make others unlike it NaN."""
    encoder = load(folder / "base")
    said = encoder.encode([*TEXTS, ""])
    lengths = np.linalg.norm(said, axis=1, keepdims=True)
    unit = said / np.where(lengths == 0, 1, lengths)
    similarity = encoder.similarity(said, said).numpy()
    np.testing.assert_allclose(similarity, unit @ unit.T, rtol=0, atol=TOLERANCE)
    assert (similarity[-1] == 0).all()
    normalized = encoder.encode([*TEXTS, ""], normalize_embeddings=True)
    np.testing.assert_allclose(normalized, unit, rtol=0, atol=TOLERANCE)


def test_sentence_transformer_truncate_dim_keeps_the_first_hops(folder: Path) -> None:
    """What the README promises of `truncate_dim`, and no more."""
    whole = load(folder / "base")
    hop = AutoModel.from_pretrained(folder / "base").config.hidden_size
    short = SentenceTransformer(str(folder / "base"), device="cpu", truncate_dim=2 * hop)
    assert short.get_embedding_dimension() == 2 * hop
    np.testing.assert_array_equal(short.encode(TEXTS), whole.encode(TEXTS)[:, : 2 * hop])
    np.testing.assert_array_equal(
        whole.encode(TEXTS, truncate_dim=hop), whole.encode(TEXTS)[:, :hop]
    )


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_sentence_transformer_save_pretrained_changes_nothing(
    folder: Path, name: str, tmp_path: Path
) -> None:
    """Bit for bit, and still a model that the Auto classes load."""
    encoder = load(folder / name)
    encoder.save_pretrained(str(tmp_path / "copy"))
    expected = encoder.encode(TEXTS)
    np.testing.assert_array_equal(load(tmp_path / "copy").encode(TEXTS), expected)
    np.testing.assert_array_equal(
        embeddings(tmp_path / "copy", TEXTS), embeddings(folder / name, TEXTS)
    )


@pytest.mark.slow
def test_sentence_transformer_encodes_in_several_processes(folder: Path, tmp_path: Path) -> None:
    """Even where the model's code comes from the checkpoint and the processes start from nothing.

    The test's own process could not show it: the package is imported here.
    """
    output = tmp_path / "embeddings.npy"
    arguments = [str(folder / "base"), str(output), json.dumps(MANY)]
    done = subprocess.run(
        [sys.executable, "-I", "-c", POOL, *arguments],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf")},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    expected = load(folder / "base").encode(MANY)
    np.testing.assert_allclose(np.load(output), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:mteb")
def test_sentence_transformer_passes_the_mock_run_of_mteb(folder: Path) -> None:
    """Every kind of task for texts, on rows that mteb makes up: a leaderboard can run it."""
    results = mteb.mock_run(SentenceTransformerEncoderWrapper(load(folder / "base")))
    statuses = [status for _, status in results.items() if status is not None]
    assert len(statuses) > 20, "the premise: tasks were run"
    failed = [status for status in statuses if isinstance(status, TaskError)]
    assert not failed, results.to_markdown()
