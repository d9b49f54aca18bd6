"""What the `self-attention` pipeline takes, how long it may be, and the spans that it names."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny import tiny_config
from transformers import pipeline
from transformers.pipelines.pt_utils import KeyDataset, KeyPairDataset

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.models.self_attentive.pipeline_self_attentive import _most_attended

TEXT = "The soup was not good,  but the bread was."
PAIR = {"text": "Two dogs sleep on a mat.", "text_pair": "No dog is awake."}
TEXTS = [TEXT, "good", "", "not bread"]


def reader_of(model_class: type[Any]) -> Any:
    """Return the pipeline of a random model."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer([TEXT, *PAIR.values()], model_max_length=6)
    names = {0: "bad", 1: "fair", 2: "good"}
    model = model_class(tiny_config(vocab_size=len(tokenizer), id2label=names)).eval()
    return pipeline("self-attention", model=model, tokenizer=tokenizer)


@pytest.fixture
def reader() -> Any:
    """The pipeline of a classifier."""
    return reader_of(SelfAttentiveForSequenceClassification)


@pytest.fixture
def pair_reader() -> Any:
    """The pipeline of an entailment model."""
    return reader_of(SelfAttentiveForNLI)


def labels_and_tokens(results: Any) -> list[tuple[str, Any]]:
    """Return what is the same however the texts came."""
    return [(result["label"], result["tokens"]) for result in results]


def test_pipeline_reads_texts_in_any_container(reader: Any) -> None:
    """Lists and columns give lists; data sets and generators give results one by one."""
    expected = labels_and_tokens([reader(text) for text in TEXTS])
    data = Dataset.from_dict({"text": TEXTS})
    for inputs in (TEXTS, tuple(TEXTS), data["text"]):
        results = reader(inputs, batch_size=3)
        assert isinstance(results, list)
        assert labels_and_tokens(results) == expected
    for inputs in ((text for text in TEXTS), KeyDataset(data, "text"), data):
        results = reader(inputs, batch_size=3)
        assert not isinstance(results, list)
        assert labels_and_tokens(results) == expected


def test_pipeline_reads_pairs_in_any_container(pair_reader: Any) -> None:
    """A data set with the two columns, or with two others by name."""
    expected = labels_and_tokens([pair_reader(PAIR)] * 3)
    data = Dataset.from_list([PAIR] * 3)
    named = data.rename_columns({"text": "premise", "text_pair": "hypothesis"})
    for inputs in ([PAIR] * 3, data, KeyPairDataset(named, "premise", "hypothesis")):
        assert labels_and_tokens(pair_reader(inputs, batch_size=2)) == expected


def test_pipeline_reads_a_dict_with_a_text(reader: Any) -> None:
    """The text-classification pipeline takes such a dict too."""
    assert reader({"text": TEXT})["tokens"] == reader(TEXT)["tokens"]


def test_pipeline_returns_nothing_for_no_texts(reader: Any) -> None:
    """A filter that leaves no text must not stop a program."""
    assert reader([]) == []
    assert list(reader(text for text in ())) == []


def test_pipeline_reads_a_generator_lazily(reader: Any) -> None:
    """A file larger than memory can be read so."""
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield TEXT

    next(iter(reader(texts())))
    assert len(taken) < 10


def test_pipeline_refuses_bytes(reader: Any) -> None:
    """They are not a list of numbers either."""
    with pytest.raises(ValueError, match=r"must be a text or a pair .*; b'good' came"):
        reader(b"good")


def test_pipeline_results_survive_json(reader: Any, pair_reader: Any) -> None:
    """It is kept in files and sent over the network."""
    for result in (reader(TEXT), pair_reader(PAIR)):
        again = json.loads(json.dumps(result, allow_nan=False))
        assert again["spans"] == result["spans"]


def test_pipeline_reads_a_long_text_whole(reader: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An LSTM has no longest text, and text-classification gives the same answer, uncut."""
    text = " ".join([TEXT] * 30)
    result = reader(text)
    assert len(result["tokens"]) == 330
    assert result["truncated"] == 0
    assert not caplog.records, "least of all a warning of indexing errors"
    stock = pipeline("text-classification", model=reader.model, tokenizer=reader.tokenizer)
    [answer] = stock(text)
    assert answer["label"] == result["label"]
    assert answer["score"] == pytest.approx(result["score"])


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"truncation": True}, 6), ({"max_length": 4}, 4), ({"max_length": 99}, 11)],
)
def test_pipeline_truncates_on_request(reader: Any, options: dict[str, Any], kept: int) -> None:
    """At the tokenizer's own limit or at another; the result says how much is missing."""
    result = reader(TEXT, **options)
    assert len(result["tokens"]) == len(result["overall"]) == kept
    assert result["truncated"] == 11 - kept
    assert result["text"] == TEXT
    assert [one["truncated"] for one in reader(TEXTS, batch_size=4, **options)] == [
        11 - kept,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_pipeline_hides_requested_padding(reader: Any, pair_reader: Any, padding_side: str) -> None:
    """It is no token of the text, and none that was cut."""
    expected = [reader(TEXT), pair_reader(PAIR)]
    options = {"padding": "max_length", "truncation": True, "max_length": 15}
    for pipe in (reader, pair_reader):
        pipe.tokenizer.padding_side = padding_side
    for result, unpadded in zip(
        [reader(TEXT, **options), pair_reader(PAIR, **options)], expected, strict=True
    ):
        assert result["tokens"] == unpadded["tokens"]
        assert result["truncated"] == unpadded["truncated"]
        assert result["score"] == pytest.approx(unpadded["score"])


def test_pipeline_counts_truncated_tokens_of_each_text_of_a_pair(pair_reader: Any) -> None:
    """The longer one is cut first."""
    assert pair_reader(PAIR)["truncated"] == [0, 0]
    result = pair_reader(PAIR, max_length=10)
    assert result["truncated"] == [2, 0]
    assert result["tokens"] == [
        ["Two", "dogs", "sleep", "on", "a"],
        ["No", "dog", "is", "awake", "."],
    ]


def test_pipeline_warns_of_the_first_truncation_only(
    reader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One word about it, with the numbers; a thousand would drown it."""
    reader(["good", TEXT, TEXT], max_length=4)
    reader(TEXT, max_length=3)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].startswith("A text was cut: its last 7 of 11 tokens are not read")
    assert caplog.records[0].levelno == logging.WARNING


def test_spans_are_runs_with_an_even_share_or_more(reader: Any) -> None:
    """They add up from `overall`, strongest first, and stand in the text where they say."""
    result = reader(TEXT)
    spans, overall = result["spans"], result["overall"]
    assert spans
    weights = [span["weight"] for span in spans]
    assert weights == sorted(weights, reverse=True)
    for span in spans:
        assert TEXT[span["start"] : span["end"]] == span["text"]
        inside = [
            weight
            for (start, end), weight in zip(result["offsets"], overall, strict=True)
            if span["start"] <= start and end <= span["end"]
        ]
        assert sum(inside) == pytest.approx(span["weight"])
        assert min(inside) >= 1 / len(overall) - 1e-4
    above = [weight for weight in overall if weight >= 1 / len(overall)]
    assert sum(weights) == pytest.approx(sum(above), abs=1e-3)


def test_spans_join_neighbouring_tokens() -> None:
    """By hand: two runs, the blanks inside them kept; with equal weights the whole text."""
    text = "was  not bad , but slow"
    offsets = [[0, 3], [5, 8], [9, 12], [13, 14], [15, 18], [19, 23]]
    spans = _most_attended(text, offsets, [0.2, 0.3, 0.2, 0.05, 0.05, 0.2])
    assert spans == [
        {"text": "was  not bad", "start": 0, "end": 12, "weight": pytest.approx(0.7)},
        {"text": "slow", "start": 19, "end": 23, "weight": 0.2},
    ]
    [whole] = _most_attended(text, offsets, [0.1666667] * 6)
    assert whole["text"] == text
    assert _most_attended("", [], []) == []


def test_spans_of_a_pair_are_in_each_text(pair_reader: Any) -> None:
    """Positions count from the beginning of the text that they stand in."""
    result = pair_reader(PAIR)
    assert len(result["spans"]) == 2
    for text, spans in zip(result["text"], result["spans"], strict=True):
        assert spans
        assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
