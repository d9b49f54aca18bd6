"""The `self-attention` pipeline and the stock pipelines on our models."""

from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import assert_same_answers
from tiny import tiny_config
from transformers import (
    TokenizersBackend,
    pipeline,
)

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer

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
        inputs = reader.tokenizer(TEXT, return_tensors="pt")
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
    assert [len(values) for values in result["word_contributions"]] == [7, 5]
    assert [len(hop) for hops in result["contributions"] for hop in hops] == [7] * 3 + [5] * 3
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
    expected = values(reader.model(**tokenizer(TEXT, return_tensors="pt")).logits[0]).tolist()
    result = reader(TEXT)
    assert list(result["scores"].values()) == pytest.approx(expected)
    assert ("labels" in result) == ("problem_type" in fields)


def test_pipeline_contributions_sum_to_the_logit_minus_that_of_an_empty_text(
    tokenizer: TokenizersBackend,
) -> None:
    """For each label, with what the words add by themselves."""
    reader = random_reader(
        SelfAttentiveForSequenceClassification, tokenizer, linear_part="words_and_pairs"
    )
    for weight in reader.model.linear_part.parameters():
        torch.nn.init.normal_(weight)
    of_text, of_nothing = (
        reader.model(**tokenizer(text, return_tensors="pt")).logits[0] for text in (TEXT, "")
    )
    added = of_text - of_nothing
    names = reader.model.config.id2label.values()
    for name, expected in zip(names, (added - added.mean()).tolist(), strict=True):
        result = reader(TEXT, target=name)
        total = np.sum(result["contributions"]) + sum(result["linear_contributions"])
        assert total == pytest.approx(expected, abs=1e-6)
        total = sum(result["word_contributions"]) + result["rest"]
        assert total == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match=r"target is 'sport'; the labels are entailment, "):
        reader(TEXT, target="sport")


def test_pipeline_refuses_what_its_model_cannot_read_or_show(
    reader: Any, pair_reader: Any, tokenizer: TokenizersBackend
) -> None:
    for given in (7, {"premise": "a", "hypothesis": "b"}, PAIR):
        with pytest.raises(ValueError, match="must be a text for"):
            reader(given)
    with pytest.raises(ValueError, match=r"\"text_pair\": ...} for a SelfAttentiveForNLI"):
        pair_reader("Two dogs sleep.")
    blind = random_reader(SelfAttentiveForSequenceClassification, tokenizer, pooling="max")
    with pytest.raises(ValueError, match=r"pooling=.max. has no contributions"):
        blind("good")


def test_pipeline_cuts_a_text_at_the_limit_of_the_model(
    reader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the count in each result."""
    reader.model.config.max_tokens = 6
    results = reader([TEXT, TEXT, "good"], batch_size=3)
    assert [result["truncated"] for result in results] == [5, 5, 0]
    assert len(results[0]["tokens"]) == len(results[0]["overall"]) == 6
    assert ["the model reads 6 tokens" in said for said in caplog.messages] == [True]


def test_pipeline_refuses_arguments_that_it_does_not_know(reader: Any) -> None:
    """An ignored one would look like an answer to it."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'top_k'"):
        reader(TEXT, top_k=2)


def test_stock_pipelines_read_our_models(
    reader: Any, pair_reader: Any, tokenizer: TokenizersBackend
) -> None:
    """text-classification of pairs and zero-shot, alone and in batches, and features."""
    nli, encoder = pair_reader.model, reader.model.encoder
    pipe = pipeline("text-classification", model=nli, tokenizer=tokenizer)
    assert_same_answers(pipe(PAIRS, batch_size=3), list(map(pipe, PAIRS)))
    assert_same_answers(pipe(PAIRS), pair_reader(PAIRS))
    pipe = pipeline("zero-shot-classification", model=nli, tokenizer=tokenizer)
    said = pipe([TEXT, "good"], candidate_labels=["dogs", "bread"], batch_size=4)[0]
    alone = pipe(TEXT, candidate_labels=["dogs", "bread"])
    assert said["scores"] == pytest.approx(alone["scores"], abs=1e-6)
    pipe = pipeline("feature-extraction", model=encoder, tokenizer=tokenizer)
    expected = encoder(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(torch.tensor(pipe(TEXT)), expected.detach())
