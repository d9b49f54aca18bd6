"""Embeddings of batches of columns and of files: right values in the order of the rows."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from checkpoints import TEXTS, change_weights, save_checkpoint
from datasets import Dataset
from rows import write_csv
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from sase_hf import Embedder
from sase_hf.commands import embed
from sase_hf.data.columns import ROWS_NAME
from sase_hf.retrieval.embed import open_rows

NUM_ROWS = 31


def make_corpus() -> list[dict[str, Any]]:
    """Return texts of very unequal lengths in no order; some are empty or have no known word."""
    rng = random.Random(0)
    words = " ".join(TEXTS).split()
    texts = [" ".join(rng.choices(words, k=rng.choice([0, 1, 2, 9, 30]))) for _ in range(NUM_ROWS)]
    texts[3], texts[4] = "", "zzz unheard of"
    return [{"id": number, "text": text} for number, text in enumerate(texts)]


CORPUS = make_corpus()
ASKED = [row["text"] for row in CORPUS]


def one_by_one(checkpoint: str) -> np.ndarray:
    """Return the embeddings that a reader of the guide gets, one text at a time."""
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    model: Any = AutoModel.from_pretrained(checkpoint).eval()
    with torch.no_grad():
        rows = [model(**tokenizer([text], return_tensors="pt")) for text in ASKED]
    return torch.cat([row.sentence_embedding for row in rows]).numpy()


def assert_right(found: Any, checkpoint: str) -> None:
    expected = one_by_one(checkpoint)
    assert np.abs(expected).max() > 0.1, "the premise: the embeddings are not all alike"
    most = 5e-6 if torch.cuda.is_available() else 1e-6
    np.testing.assert_allclose(np.stack(found), expected, rtol=most, atol=most)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("embed") / "tiny")


@pytest.mark.parametrize(
    ("batch_tokens", "fields"),
    [(1, {}), (45, {"encoder": "cnn"}), (16_384, {"pooling": "max"}), (60, {"is_pair": True})],
)
def test_embedder_gives_each_text_the_embedding_that_it_has_alone(
    batch_tokens: int, fields: dict[str, Any], tmp_path: Path
) -> None:
    """Neighbours in a batch, padding and sorting by length change nothing."""
    checkpoint = save_checkpoint(tmp_path, **fields)
    embedder = Embedder(checkpoint, batch_tokens=batch_tokens)
    assert_right(embedder.embed(ASKED), checkpoint)
    assert embedder.embed([]).shape == (0, embedder.model.config.projection_dim)


def test_embedder_is_a_function_for_map_of_datasets(checkpoint: str) -> None:
    mapped = Dataset.from_list(CORPUS).map(Embedder(checkpoint), batched=True, batch_size=9)
    assert mapped.column_names == ["id", "text", "embedding"]
    assert_right(mapped.with_format("numpy")["embedding"][:], checkpoint)


def test_embedder_knows_its_model_by_every_weight_that_embeds(tmp_path: Path) -> None:
    """So no ranking takes embeddings of a model that was trained further, in whatever layer."""
    folder = Path(save_checkpoint(tmp_path))
    before, unchanged = Embedder(folder).model_sha256, set()
    for name in load_file(folder / "model.safetensors"):
        change_weights(folder, lambda weights, name=name: weights[name].add_(1))
        after = Embedder(folder).model_sha256
        if after == before:
            unchanged.add(name.partition(".")[0])
        before = after
    assert unchanged == {"classifier"}


def test_open_rows_takes_the_column_of_the_training(tmp_path: Path) -> None:
    (tmp_path / ROWS_NAME).write_text('{"text_column_names": ["review"]}')
    file = str(write_csv(tmp_path / "a.csv", [{"text": "id 1", "review": "nice"}]))
    _, column = open_rows(file, checkpoint=tmp_path / "checkpoint-3")
    assert column == "review"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_embed_gives_the_same_for_every_format(
    ending: str, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are embedded in parts; the Parquet file stores texts as categories, as pandas does."""
    monkeypatch.setattr(embed, "ROWS", 10)
    given = tmp_path / f"corpus.{ending}"
    if ending == "parquet":
        texts = pa.array(ASKED).dictionary_encode()
        pq.write_table(pa.table({"id": range(NUM_ROWS), "Review Text": texts}), given)
    else:
        write_csv(given, CORPUS)
    output = tmp_path / "out.parquet"
    embed.main([checkpoint, str(given), "--output", str(output), "--precision", "float32"])
    assert {path.name for path in tmp_path.iterdir()} == {given.name, output.name}
    table = pq.read_table(output)
    assert list(map(int, table["id"].to_pylist())) == list(range(NUM_ROWS))
    assert table[1].to_pylist() == ASKED
    assert_right(table["embedding"].to_pylist(), checkpoint)
