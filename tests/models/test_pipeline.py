"""The `self-attention` pipeline and the stock pipelines on our models."""

from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import assert_same_answers
from tiny import tiny_config
from transformers import (
    TextClassificationPipeline,
    TokenizersBackend,
    pipeline,
)

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.models.pipeline_self_attentive import _target_ids

TEXT = "The soup was not good,  but the bread was."
PAIR = {"text": "Two dogs sleep on a mat.", "text_pair": "No dog is awake."}
TEXTS = [TEXT, "good", "", "not bread"]
PAIRS = [PAIR, {"text": "", "text_pair": "dogs"}, {"text": "No", "text_pair": ""}]


@pytest.fixture
def tokenizer() -> TokenizersBackend:
    return build_tokenizer([TEXT, *PAIR.values()])


def random_reader(model_class: type[Any], tokenizer: TokenizersBackend, **fields: Any) -> Any:
    """Return the pipeline of a model with random weights."""
    names = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}
    config = tiny_config(vocab_size=len(tokenizer), **{**names, **fields})
    return pipeline("self-attention", model=model_class(config).eval(), tokenizer=tokenizer)


def sides(result: dict[str, Any]) -> list[Any]:
    """Return the attention on each text of a result."""
    return result["attention"] if isinstance(result["text"], list) else [result["attention"]]


@pytest.fixture
def reader(tokenizer: TokenizersBackend) -> Any:
    return random_reader(SelfAttentiveForSequenceClassification, tokenizer)


@pytest.fixture
def pair_reader(tokenizer: TokenizersBackend) -> Any:
    return random_reader(SelfAttentiveForNLI, tokenizer)


def test_pipeline_result_equals_the_models_output(reader: Any) -> None:
    result = reader(TEXT)
    with torch.no_grad():
        inputs = reader.tokenizer(TEXT, return_tensors="pt").to(reader.device)
        outputs = reader.model(**inputs, output_attentions=True)
    probabilities = outputs.logits[0].softmax(-1).tolist()
    names = reader.model.config.id2label.values()
    assert result["scores"] == dict(zip(names, probabilities, strict=True))
    assert result["score"] == max(probabilities) == result["scores"][result["label"]]
    attention = outputs.attentions[0][0]
    assert result["attention"] == attention.tolist()
    assert sum(result["overall"]) == pytest.approx(1)
    assert result["overall"] == pytest.approx(attention.mean(0).tolist())


def test_pipeline_tokens_are_slices_of_the_text(reader: Any) -> None:
    """Case, spacing, unknown words and decomposed characters stay as the user wrote them."""
    cafe, syllable = "cafe\u0301", "\u1100\u1161\u11a8"
    text = f"The ZUCCHINI  was {cafe}, {syllable} a{syllable}b \ud800 !\u0301"
    result = reader([text, "good"])[0]
    tokens = ["The", "ZUCCHINI", "was", cafe, ",", syllable, f"a{syllable}b", "\ud800", "!"]
    assert result["tokens"] == [*tokens, "\u0301"]
    assert [text[start:end] for start, end in result["offsets"]] == result["tokens"]
    assert result["text"] == text


def test_pipeline_shows_a_pair_sentence_by_sentence(pair_reader: Any) -> None:
    result = pair_reader(PAIR)
    counts = [len(tokens) for tokens in result["tokens"]]
    assert [len(values) for values in result["word_contributions"]] == counts
    assert result["text"] == [*PAIR.values()]
    assert result["tokens"][1] == ["No", "dog", "is", "awake", "."]
    for hops in result["attention"]:
        assert [sum(hop) for hop in hops] == pytest.approx([1] * 3)


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_pipeline_batches_equal_single_texts(
    reader: Any, pair_reader: Any, padding_side: str
) -> None:
    """Neither neighbours nor padding change a result, an empty text included."""
    reader.tokenizer.padding_side = pair_reader.tokenizer.padding_side = padding_side
    for pipe, inputs in ((reader, TEXTS), (pair_reader, PAIRS)):
        alone = [pipe(item) for item in inputs]
        for one, other in zip(alone, pipe(inputs, batch_size=4), strict=True):
            assert (one["tokens"], one["truncated"]) == (other["tokens"], other["truncated"])
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-6)
            for found, expected in zip(sides(other), sides(one), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_pipeline_answers_an_empty_text(reader: Any) -> None:
    result = reader("")
    assert result["tokens"] == result["overall"] == []
    assert result["attention"] == [[]] * 3


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"problem_type": "multi_label_classification"}, torch.sigmoid),
        ({"id2label": {0: "stars"}}, lambda logits: logits),
    ],
)
def test_pipeline_scores_follow_the_problem_type(
    tokenizer: TokenizersBackend, fields: dict[str, Any], values: Any
) -> None:
    """A multi-label score is a sigmoid, a regression's the value; several labels may be right."""
    reader = random_reader(SelfAttentiveForSequenceClassification, tokenizer, **fields)
    inputs = tokenizer(TEXT, return_tensors="pt").to(reader.device)
    expected = values(reader.model(**inputs).logits[0]).tolist()
    result = reader(TEXT)
    assert list(result["scores"].values()) == pytest.approx(expected)
    named = [name for name, score in result["scores"].items() if score > 0.5]
    assert result.get("labels", named) == named
    assert ("labels" in result) == ("problem_type" in fields)
    stock = pipeline("text-classification", model=reader.model, tokenizer=tokenizer)(TEXT)
    assert stock[0]["score"] == pytest.approx(max(expected), abs=1e-6)


@pytest.fixture
def linear_reader(tokenizer: TokenizersBackend) -> Any:
    """A reader whose linear part has random weights."""
    reader = random_reader(
        SelfAttentiveForSequenceClassification, tokenizer, linear_part="words_and_pairs"
    )
    for weight in reader.model.linear_part.parameters():
        torch.nn.init.normal_(weight)
    return reader


def test_pipeline_contributions_sum_to_the_logit_minus_that_of_an_empty_text(
    linear_reader: Any,
) -> None:
    """For each label, and for the difference of two."""
    inputs = [linear_reader.tokenizer(text, return_tensors="pt") for text in (TEXT, "")]
    logits = [linear_reader.model(**one.to(linear_reader.device)).logits[0] for one in inputs]
    added = logits[0] - logits[1]
    names = linear_reader.model.config.id2label.values()
    for name, expected in zip(names, (added - added.mean()).tolist(), strict=True):
        result = linear_reader(TEXT, target=name)
        total = np.sum(result["contributions"]) + sum(result["linear_contributions"])
        assert total == pytest.approx(expected, abs=1e-6)
        total = sum(result["word_contributions"]) + result["rest"]
        assert total == pytest.approx(expected, abs=1e-6)
    result = linear_reader(TEXT, target="contradiction>entailment")
    assert result["target"] == "contradiction>entailment"
    expected = pytest.approx((added[2] - added[0]).item(), abs=1e-6)
    assert np.sum(result["contributions"]) + sum(result["linear_contributions"]) == expected
    assert sum(result["word_contributions"]) + result["rest"] == expected
    for target in ("sport", "neutral>sport", "neutral>neutral"):
        with pytest.raises(ValueError, match=f"target is '{target}'; the labels are entailment, "):
            linear_reader(TEXT, target=target)


def test_target_may_have_the_sign_of_a_difference_in_its_name() -> None:
    names = ("a", "b", "a>b")
    assert [_target_ids(target, names) for target in ("a>b", "a>b>b", "b>a")] == [
        [2],
        [2, 1],
        [1, 0],
    ]


def test_pipeline_counts_the_words_themselves_in_what_each_word_added(linear_reader: Any) -> None:
    with_part = linear_reader(TEXT, target="neutral")
    linear_reader.model.linear_part = None
    without_part = linear_reader(TEXT, target="neutral")
    of_both = np.add(without_part["word_contributions"], with_part["linear_contributions"])
    np.testing.assert_allclose(with_part["word_contributions"], of_both, atol=1e-5)


@pytest.mark.parametrize("given", [7, b"good", {"premise": "a", "hypothesis": "b"}, PAIR])
def test_pipeline_refuses_an_input_that_its_model_does_not_read(reader: Any, given: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a text for .*(7|b'good'|'premise'|'text_pair')"):
        reader(given)


@pytest.mark.parametrize("pooling", ["max", "mean", "last"])
def test_pipeline_shows_what_other_poolings_take_from_each_word(
    tokenizer: TokenizersBackend, pooling: str
) -> None:
    reader = random_reader(SelfAttentiveForSequenceClassification, tokenizer, pooling=pooling)
    result = reader(TEXT)
    [shares] = result["attention"]
    assert sum(shares) == pytest.approx(1)
    assert (len(set(shares)) == 1) == (pooling == "mean")
    [of_row] = result["contributions"]
    assert sum(result["word_contributions"]) == pytest.approx(sum(of_row), abs=1e-5)


def test_pipeline_refuses_a_text_that_a_model_of_pairs_cannot_read(pair_reader: Any) -> None:
    with pytest.raises(ValueError, match=r"\"text_pair\": ...} for a SelfAttentiveForNLI"):
        pair_reader("Two dogs sleep.")


def test_pipeline_cuts_a_text_at_the_limit_of_the_model(
    reader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the count in each result."""
    reader.model.config.max_tokens = 6
    results = reader([TEXT, TEXT, "good"], batch_size=3)
    assert [result["truncated"] for result in results] == [5, 5, 0]
    assert len(results[0]["tokens"]) == len(results[0]["overall"]) == 6
    assert ["the model reads 6 tokens" in said for said in caplog.messages] == [True]


def test_stock_classification_reads_the_same_part_of_a_long_text(
    reader: Any, pair_reader: Any
) -> None:
    """The model has the limit, and the stock pipeline none; a pair comes in each form of it."""
    turned = {"text_pair": PAIR["text_pair"], "text": PAIR["text"]}
    for own, given in ((reader, [TEXT, "good"]), (pair_reader, [PAIR, turned, [[*PAIR.values()]]])):
        stock = pipeline("text-classification", model=own.model, tokenizer=own.tokenizer)
        assert type(stock) is TextClassificationPipeline
        [whole] = stock(given[:1])
        own.model.config.max_tokens = 3
        answers = stock(given, batch_size=2)
        assert_same_answers(answers[:1], [own(given[0])])
        assert answers[0]["score"] != pytest.approx(whole["score"], abs=1e-7), "the premise"
        if own is pair_reader:
            assert [one["score"] for one in answers[1:]] == [pytest.approx(answers[0]["score"])] * 2


def test_stock_pipelines_read_our_models(
    reader: Any, pair_reader: Any, tokenizer: TokenizersBackend
) -> None:
    """text-classification of pairs and zero-shot, alone and in batches, and features."""
    nli, encoder = pair_reader.model, reader.model.encoder
    pipe = pipeline("text-classification", model=nli, tokenizer=tokenizer)
    assert_same_answers(pipe(PAIRS, batch_size=3), list(map(pipe, PAIRS)))
    assert_same_answers(pipe(PAIRS), pair_reader(PAIRS))
    pipe = pipeline("zero-shot-classification", model=nli, tokenizer=tokenizer)
    alone, batched = (
        pipe([TEXT, "good"], candidate_labels=["dogs", "bread"], batch_size=size)[0]
        for size in (1, 4)
    )
    assert alone["labels"] == batched["labels"]
    assert alone["scores"] == pytest.approx(batched["scores"], abs=1e-6)
    pipe = pipeline("feature-extraction", model=encoder, tokenizer=tokenizer)
    expected = encoder(**tokenizer(TEXT, return_tensors="pt").to(encoder.device))
    torch.testing.assert_close(torch.tensor(pipe(TEXT)), expected.last_hidden_state.detach().cpu())
