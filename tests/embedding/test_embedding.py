"""Embeddings of a corpus: right values in the order of the rows, whatever the source."""

import gzip
import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkpoints import change_weights, save_checkpoint
from corpora import (
    NUM_ROWS,
    NUM_SHARDS,
    contents,
    embed,
    embeddings_of,
    make_corpus,
    one_by_one,
    shard_files,
    write_parquet,
)
from datasets import ClassLabel, Dataset, Features, Value, load_dataset
from rows import write_csv, write_jsonl
from safetensors.torch import load_file
from transformers import AutoTokenizer

from sase_hf.embedding import Embedder, corpus

CORPUS = make_corpus()
TEXTS = [row["text"] for row in CORPUS]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("embedding") / "tiny")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write_parquet(tmp_path / "corpus.parquet", CORPUS)


@pytest.mark.parametrize(
    ("batch_tokens", "fields"),
    [(1, {}), (45, {"encoder": "cnn"}), (16_384, {"pooling": "max"}), (60, {"is_pair": True})],
)
def test_embed_corpus_gives_each_row_the_embedding_of_its_text_alone(
    batch_tokens: int, fields: dict[str, Any], file: str, tmp_path: Path
) -> None:
    """Neighbours in a batch, padding and sorting by length change nothing."""
    checkpoint = save_checkpoint(tmp_path / "tiny", **fields)
    table = embed(checkpoint, file, tmp_path / "out", batch_tokens=batch_tokens)
    assert table["id"].to_pylist() == list(range(NUM_ROWS))
    assert table["text"].to_pylist() == TEXTS
    assert len(shard_files(tmp_path / "out")) == NUM_SHARDS
    assert table.schema.field("embedding").type.value_type == pa.float32()
    expected = one_by_one(checkpoint, TEXTS)
    assert np.abs(expected).max() > 0.1, "the premise: the embeddings are not all alike"
    np.testing.assert_allclose(embeddings_of(table), expected, rtol=1e-6, atol=1e-6)


def test_embedder_cuts_normalizes_and_rounds(checkpoint: str) -> None:
    plain = one_by_one(checkpoint, TEXTS)
    cut = Embedder(checkpoint, max_seq_length=2)(["good bread cold", "good bread"])
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)

    lengths = np.linalg.norm(Embedder(checkpoint, normalize=True)(TEXTS), axis=1)
    assert set(lengths.round(5)) == {0.0, 1.0}, "an empty text has no direction and stays zero"

    half = Embedder(checkpoint, dtype="float16")(TEXTS)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, plain, atol=1e-3)

    embedder = Embedder(checkpoint)
    embedder.set_precision("bf16")
    coarse = embedder(TEXTS)
    np.testing.assert_allclose(coarse, plain, atol=0.05)
    assert np.abs(coarse - plain).max() > 1e-5, "the premise: bfloat16 is at work"


def test_embedder_identity_changes_with_every_weight_that_embeds(tmp_path: Path) -> None:
    """So a run never goes on with a model that was trained further, in whatever layer."""
    folder = Path(save_checkpoint(tmp_path))
    names = list(load_file(folder / "model.safetensors"))
    identities = [Embedder(str(folder)).identity["weights_sha256"]]
    for name in names:
        change_weights(folder, lambda weights, name=name: weights[name].add_(1))
        identities.append(Embedder(str(folder)).identity["weights_sha256"])
    changes = dict(zip(names, pairwise(identities), strict=True))
    unchanged = {name for name, (before, after) in changes.items() if before == after}
    assert unchanged == {name for name in names if name.startswith("classifier.")}


@pytest.mark.parametrize("change", [{"model_max_length": 9}, {"truncation_side": "left"}])
def test_embedder_identity_changes_with_the_way_that_texts_are_cut(
    change: dict[str, Any], checkpoint: str, tmp_path: Path
) -> None:
    """Long texts would have other embeddings."""
    folder = shutil.copytree(checkpoint, tmp_path / "other")
    AutoTokenizer.from_pretrained(folder, **change).save_pretrained(folder)
    before, after = (Embedder(str(place)).identity for place in (checkpoint, folder))
    changed = {name for name, checksum in before.items() if after[name] != checksum}
    assert changed == {"tokenizer_sha256"}


def test_embedder_identity_is_that_of_a_tokenizer_that_was_saved_after_use(
    checkpoint: str, tmp_path: Path
) -> None:
    """A call leaves its cut and its padding in tokenizer.json, and texts are read as before."""
    folder = shutil.copytree(checkpoint, tmp_path / "other")
    before = Embedder(str(folder))
    content = before.tokenizer.backend_tokenizer.to_str()
    cut = json.dumps([before.tokenizer.model_max_length, before.tokenizer.truncation_side])
    digest = hashlib.sha256((content + cut).encode()).hexdigest()
    assert before.identity["tokenizer_sha256"] == digest, "that of folders of older versions"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer(TEXTS[:2], truncation=True, max_length=20, padding=True)
    tokenizer.save_pretrained(folder)
    saved = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    assert None not in (saved["truncation"], saved["padding"]), "the premise"
    assert Embedder(str(folder)).identity == before.identity


def test_embedder_tokenizes_no_more_of_a_long_text_than_it_reads(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = Embedder(checkpoint, max_seq_length=8)
    text = "the soup was good " * 10_000
    expected = embed([text[:200]])
    sizes: list[int] = []
    tokenize = type(embed.tokenizer).__call__

    def spy(self: Any, texts: Any, *arguments: Any, **options: Any) -> Any:
        sizes.append(max(map(len, [texts] if isinstance(texts, str) else texts)))
        return tokenize(self, texts, *arguments, **options)

    monkeypatch.setattr(type(embed.tokenizer), "__call__", spy)
    np.testing.assert_array_equal(embed([text]), expected)
    assert 0 < max(sizes) < 10_000


@pytest.mark.parametrize("ending", ["jsonl.gz", "csv", "parquet"])
def test_embed_corpus_gives_the_same_for_every_format(
    ending: str, checkpoint: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text is read in chunks; the Parquet file stores the texts as categories, as pandas does."""
    monkeypatch.setattr(corpus, "ROWS_PER_CHUNK", 10)
    given = tmp_path / f"other.{ending}"
    if ending == "parquet":
        texts = pa.array(TEXTS).dictionary_encode()
        pq.write_table(pa.table({"id": range(NUM_ROWS), "text": texts}), given)
    else:
        (write_csv if ending == "csv" else write_jsonl)(given, CORPUS)
    expected = embed(checkpoint, file, tmp_path / "expected")
    table = embed(checkpoint, str(given), tmp_path / "out")
    assert table["embedding"].equals(expected["embedding"])
    assert list(map(int, table["id"].to_pylist())) == list(range(NUM_ROWS))
    assert set(contents(tmp_path / "out")) == set(contents(tmp_path / "expected"))
    for keep in ((), ("id",)):
        kept = embed(checkpoint, str(given), tmp_path / f"{len(keep)}", keep_columns=keep)
        assert kept.column_names == [*keep, "embedding"]
        assert kept["embedding"].equals(expected["embedding"])


def test_embed_corpus_reads_files_one_after_the_other(checkpoint: str, tmp_path: Path) -> None:
    """A shard may span files; a column that a file lacks is null there."""
    late = [{**row, "stars": 0.5} for row in CORPUS[20:]]
    given = [
        write_parquet(tmp_path / "first.parquet", CORPUS[:9]),
        str(write_jsonl(tmp_path / "second.jsonl", [{**row, "stars": 2} for row in CORPUS[9:20]])),
        write_parquet(tmp_path / "third.parquet", late),
    ]
    table = embed(checkpoint, given, tmp_path / "out")
    assert table["text"].to_pylist() == TEXTS
    assert table["stars"].to_pylist() == [None] * 9 + [2.0] * 11 + [0.5] * 11
    np.testing.assert_allclose(
        embeddings_of(table), one_by_one(checkpoint, TEXTS), rtol=1e-6, atol=1e-6
    )


def test_open_files_refuses_classes_in_another_order(tmp_path: Path) -> None:
    """The output has the names of the first file, for the numbers of both."""
    given = []
    for names in (["bad", "good"], ["good", "bad"]):
        features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
        path = tmp_path / f"{names[0]}.parquet"
        Dataset.from_dict({"text": ["a"], "label": [0]}, features).to_parquet(path)
        given.append(str(path))
    plain = write_parquet(tmp_path / "plain.parquet", [{"text": "a", "label": 1}])
    expected = r"\['bad', 'good'\] in .*bad.parquet and \['good', 'bad'\] in .*good.parquet"
    with pytest.raises(ValueError, match=f"{expected}.*strings.*leave it out with --keep_columns"):
        corpus.open_files(given, "text", None)
    with pytest.raises(ValueError, match=r"and without names in .*plain\.parquet"):
        corpus.open_files([given[0], plain], "text", None)
    assert corpus.open_files([given[0], given[0]], "text", None).num_rows == 2


def test_open_files_reads_no_more_than_the_wanted_columns(tmp_path: Path) -> None:
    """Other columns of Parquet files need not go together."""
    first = write_parquet(tmp_path / "first.parquet", [{"text": "a", "id": 1, "url": "u"}])
    second = write_parquet(tmp_path / "second.parquet", [{"text": "b", "id": "x", "url": "v"}])
    with pytest.raises(ValueError, match=r"Field id has .*; leave this one out with --keep_col"):
        corpus.open_files([first, second], "text", None)
    for keep in ((), ("url",)):
        opened = corpus.open_files([first, second], "text", keep)
        assert opened.schema.names == ["text", *keep]
        assert opened.read(0, 2, ["text"])["text"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("index", [pa.int8(), None])
def test_open_files_reads_categories_beside_texts(tmp_path: Path, index: Any) -> None:
    categories = pa.array(["a", "b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"text": categories}), tmp_path / "first.parquet")
    other = pa.array(["c"])
    if index is not None:
        other = other.cast(pa.dictionary(index, pa.string()))
    pq.write_table(pa.table({"text": other}), tmp_path / "second.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("first", "second")]
    both = corpus.open_files(files, "text", None)
    both.check_columns("text", ["text"])
    assert both.read(1, 4, ["text"])["text"].to_pylist() == ["b", "a", "c"]
    alone = corpus.open_files(files[:1], "text", None)
    assert alone.schema.field("text").type == categories.type


def test_open_files_names_the_column_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A float64 cannot hold each int64 of rows that are read before."""
    monkeypatch.setattr(corpus, "ROWS_PER_CHUNK", 2)
    rows = [{"text": "a", "id": 2**60 + 1}] * 2 + [{"text": "a", "id": 0.5}]
    given = str(write_jsonl(tmp_path / "r.jsonl", rows))
    with pytest.raises(ValueError, match=r"column 'id': Integer value .*; leave it out with"):
        corpus.open_files([given], "text", None)
    assert corpus.open_files([given], "text", ()).num_rows == 3


def test_embed_corpus_keeps_class_names_of_a_dataset_on_the_hub(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`load_dataset` reads the output folder; the manifest holds the commit."""
    asked: dict[str, Any] = {}
    labels = [number % 2 for number in range(NUM_ROWS)]
    rows = Dataset.from_list(CORPUS).add_column("label", labels)
    rows = rows.cast_column("label", ClassLabel(names=["bad", "good"]))

    def load(path: str, **options: Any) -> Dataset:
        asked.update(options, path=path)
        return rows

    monkeypatch.setattr(corpus, "load_dataset", load)
    monkeypatch.setattr(corpus, "commit_of", lambda _: "c0ffee")
    hub = {"dataset_name": "some/set", "dataset_config_name": "en", "split": "test"}
    embed(checkpoint, (), tmp_path / "out", keep_columns=("label",), **hub)
    assert asked == {"path": "some/set", "name": "en", "revision": None, "split": "test"}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["input"]["revision"] == "c0ffee"

    output = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))["train"]
    assert output.features["label"].names == ["bad", "good"]
    assert output["label"][:] == labels
    output = output.with_format("numpy")
    expected = one_by_one(checkpoint, TEXTS)
    np.testing.assert_allclose(output["embedding"][:], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([*CORPUS[:9], {"text": 5}], {}, r"row 9 .*column 'text': 5 is of type int, not a string"),
        (CORPUS, {"keep_columns": ("url",)}, "the input has no column 'url'; it has 'text'"),
        (
            [{"id": 1, "text": ""}, {"id": "x", "text": ""}],
            {},
            "column 'id': .*'x'.*; leave it out",
        ),
        ([{"text": "", "meta": {}}], {}, r"Parquet cannot hold .*'meta'.*--keep_columns"),
        ([{"text": "", "embedding": 1}], {}, "the input has a column 'embedding'; leave it out"),
        ([], {}, "the input has no rows; name other files"),
    ],
)
def test_embed_corpus_refuses_bad_rows_and_columns(
    rows: list[dict[str, Any]],
    settings: dict[str, Any],
    message: str,
    checkpoint: str,
    tmp_path: Path,
) -> None:
    given = str(write_jsonl(tmp_path / "corpus.jsonl", rows))
    with pytest.raises(ValueError, match=message):
        embed(checkpoint, given, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_embed_corpus_names_files_and_settings_that_it_cannot_use(
    checkpoint: str, file: str, tmp_path: Path
) -> None:
    torn = tmp_path / "bad.jsonl.gz"
    torn.write_bytes(gzip.compress(b'{"text": ""}\n')[:-9])
    bad = write_parquet(tmp_path / "bad.parquet", [*CORPUS[:9], {"id": 9, "text": None}])
    numbers = write_parquet(tmp_path / "numbers.parquet", [{"id": "one", "text": 1}])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"inputs": (str(torn),)}, r"cannot read '.*bad\.jsonl\.gz'.*; is the file compl"),
        ({"inputs": (file, bad)}, r"row 9 \(.*\) of .*/bad\.parquet, column 'text'"),
        (
            {"text_column_names": "body", "keep_columns": ()},
            r"no column 'body'; it has 'id', 'text'\. Choose with --text_column_names$",
        ),
        ({"text_column_names": "body"}, r"with --text_column_names and --keep_columns$"),
        ({"inputs": (numbers,)}, "column 'text' holds values of type int64, not texts"),
        ({"inputs": (file, numbers)}, r"the columns do not go together: .*; leave this one out"),
        ({"inputs": ()}, r"files are \[\] and --dataset_name is None; give either"),
        ({"rows_per_shard": -1}, "--rows_per_shard is -1; it must be 1 or more"),
        ({"dtype": "int8"}, "--dtype is 'int8'; allowed are float32, "),
        ({"revision": "main"}, "is a folder; leave the revision 'main' out"),
        ({"device": "abacus"}, "cannot compute on device 'abacus'"),
    ]
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            embed(checkpoint, file, tmp_path / "out", **settings)


def test_embed_corpus_stops_at_an_embedding_that_is_not_finite(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Embedder, "_embed", lambda _, ids: np.float32([[len(ids[0]) * 1e5] * 24]))
    given = str(write_jsonl(tmp_path / "corpus.jsonl", [{"text": ""}] * 12 + [{"text": "bread"}]))
    message = r"row 12 of the input .*: its embedding is not finite in float16; name"
    with pytest.raises(FloatingPointError, match=message):
        embed(checkpoint, given, tmp_path / "out", dtype="float16", batch_tokens=1)
    assert len(shard_files(tmp_path / "out")) == 1, "that of the rows before it"
