"""The stock pipelines and the `self-attention` pipeline on our models."""

import pytest
import torch
from datasets import Dataset
from evaluate import evaluator
from transformers import TokenizersBackend, pipeline

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.evaluation.records import load_metrics
from sase_hf.visualization import attention_html

TEXT = "The soup was not good,  but the bread was."
PAIR = {"text": "Two dogs sleep.", "text_pair": "No dog is awake."}
RESULT_FIELDS = {
    "text",
    "label",
    "score",
    "scores",
    "tokens",
    "offsets",
    "attention",
    "overall",
    "overlap",
    "spans",
    "truncated",
}


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    return build_tokenizer([TEXT, *PAIR.values()])


def config_for(tokenizer: TokenizersBackend, **changes: object) -> SelfAttentiveConfig:
    sizes = {
        "vocab_size": len(tokenizer),
        "embedding_size": 8,
        "lstm_hidden_size": 6,
        "attention_size": 5,
        "num_hops": 4,
        "classifier_hidden_size": 7,
    }
    return SelfAttentiveConfig(**{**sizes, **changes})


@pytest.fixture(scope="module")
def classifier(tokenizer: TokenizersBackend) -> SelfAttentiveForSequenceClassification:
    torch.manual_seed(1)
    config = config_for(tokenizer, id2label={0: "bad", 1: "fair", 2: "good"})
    return SelfAttentiveForSequenceClassification(config).eval()


@pytest.fixture(scope="module")
def nli(tokenizer: TokenizersBackend) -> SelfAttentiveForNLI:
    torch.manual_seed(2)
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    return SelfAttentiveForNLI(config_for(tokenizer, id2label=labels)).eval()


def test_pipeline_result_equals_the_models_output(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """The fields are those of the model's own output, in plain Python types."""
    result = pipeline("self-attention", model=classifier, tokenizer=tokenizer)(TEXT)
    assert result.keys() == RESULT_FIELDS
    encoded = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        outputs = classifier(**encoded, output_attentions=True)
    probabilities = outputs.logits[0].softmax(-1).tolist()
    assert result["scores"] == dict(zip(["bad", "fair", "good"], probabilities, strict=True))
    assert result["score"] == max(probabilities) == result["scores"][result["label"]]
    attention = outputs.attentions[0][0]
    assert result["attention"] == attention.tolist()
    assert sum(result["overall"]) == pytest.approx(1)
    assert result["overall"] == pytest.approx((attention.mean(0)).tolist())
    gram = attention @ attention.T
    off_diagonal = (gram.sum() - gram.trace()) / 12  # 4 hops: 12 ordered pairs
    assert result["overlap"] == pytest.approx(off_diagonal.item())


def test_pipeline_shows_generalized_pooling_as_mean_over_features(
    tokenizer: TokenizersBackend,
) -> None:
    """Its hops have a weight for each feature; a reader sees their mean, and so does the page."""
    torch.manual_seed(1)
    config = config_for(tokenizer, pooling="generalized", encoder="dilated_cnn")
    model = SelfAttentiveForSequenceClassification(config).eval()
    result = pipeline("self-attention", model=model, tokenizer=tokenizer)(TEXT)
    assert result.keys() == RESULT_FIELDS
    assert len(result["attention"]) == 4
    assert [sum(hop) for hop in result["attention"]] == pytest.approx([1] * 4)
    assert ">soup<" in attention_html(result)


def test_pipeline_tokens_are_slices_of_the_text(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """Case, spacing and unknown words stay the reader's, not the vocabulary's."""
    text = "The ZUCCHINI  was good"
    result = pipeline("self-attention", model=classifier, tokenizer=tokenizer)(text)
    assert result["tokens"] == ["The", "ZUCCHINI", "was", "good"]
    assert [text[start:end] for start, end in result["offsets"]] == result["tokens"]


def test_pipeline_tokens_keep_accents_and_parts_of_syllables(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """Names of files come so from macOS; composed, they would have the place of the first part."""
    cafe, syllable = "cafe\u0301", "\u1100\u1161\u11a8"
    explain = pipeline("self-attention", model=classifier, tokenizer=tokenizer)
    result = explain(f"{cafe}, {syllable} a{syllable}b !\u0301")
    assert result["tokens"] == [cafe, ",", syllable, f"a{syllable}b", "!", "\u0301"]


def test_pipeline_shows_a_pair_sentence_by_sentence(
    nli: SelfAttentiveForNLI, tokenizer: TokenizersBackend
) -> None:
    """Each sentence has its own tokens, and attention that sums to 1 over them."""
    result = pipeline("self-attention", model=nli, tokenizer=tokenizer)(PAIR)
    assert result["text"] == [PAIR["text"], PAIR["text_pair"]]
    assert result["tokens"] == [["Two", "dogs", "sleep", "."], ["No", "dog", "is", "awake", "."]]
    for tokens, attention in zip(result["tokens"], result["attention"], strict=True):
        assert len(attention) == 4
        for hop in attention:
            assert len(hop) == len(tokens)
            assert sum(hop) == pytest.approx(1)


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_pipeline_batches_equal_single_texts(
    classifier: SelfAttentiveForSequenceClassification,
    nli: SelfAttentiveForNLI,
    tokenizer: TokenizersBackend,
    padding_side: str,
) -> None:
    """Neighbours, their padding and its side change nothing, an empty text included."""
    tokenizer.padding_side = padding_side
    try:
        for model, inputs in (
            (classifier, [TEXT, "good", "", "not bread"]),
            (nli, [PAIR, {"text": "", "text_pair": "dogs"}, {"text": "No", "text_pair": ""}]),
        ):
            pipe = pipeline("self-attention", model=model, tokenizer=tokenizer)
            alone = [pipe(item) for item in inputs]
            together = pipe(inputs, batch_size=3)
            for one, other in zip(alone, together, strict=True):
                assert one["tokens"] == other["tokens"]
                assert one["scores"] == pytest.approx(other["scores"], abs=1e-6)
                flat = torch.tensor(_flatten(one["attention"]))
                torch.testing.assert_close(flat, torch.tensor(_flatten(other["attention"])))
    finally:
        tokenizer.padding_side = "right"


def _flatten(nested: object) -> list[float]:
    if isinstance(nested, float):
        return [nested]
    return [value for part in nested for value in _flatten(part)]


def test_pipeline_labels_an_empty_text(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """An LSTM refuses a sequence of no tokens; the model must not."""
    result = pipeline("self-attention", model=classifier, tokenizer=tokenizer)("")
    assert result["label"] in {"bad", "fair", "good"}
    assert result["tokens"] == result["overall"] == []
    assert result["attention"] == [[]] * 4


def test_pipeline_reads_a_lone_surrogate_as_unknown(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """Such a string cannot be encoded; one of them must not stop a batch."""
    text = "good \ud800 bread"
    results = pipeline("self-attention", model=classifier, tokenizer=tokenizer)([text, "good"])
    assert results[0]["text"] == text
    assert results[0]["tokens"] == ["good", "\ud800", "bread"]
    assert results[1]["tokens"] == ["good"]


def test_pipeline_scores_follow_the_problem_type(tokenizer: TokenizersBackend) -> None:
    """A multi-label score is a sigmoid, a regression's the value itself."""
    config = config_for(
        tokenizer, id2label={0: "a", 1: "b"}, problem_type="multi_label_classification"
    )
    model = SelfAttentiveForSequenceClassification(config).eval()
    result = pipeline("self-attention", model=model, tokenizer=tokenizer)(TEXT)
    logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert list(result["scores"].values()) == pytest.approx(logits.sigmoid().tolist())
    model = SelfAttentiveForSequenceClassification(
        config_for(tokenizer, id2label={0: "stars"})
    ).eval()
    result = pipeline("self-attention", model=model, tokenizer=tokenizer)(TEXT)
    logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert result["score"] == pytest.approx(logits.item(), abs=1e-6)
    stock = pipeline("text-classification", model=model, tokenizer=tokenizer)(TEXT)
    assert stock[0]["score"] == pytest.approx(logits.item(), abs=1e-6)


def test_pipeline_refuses_an_input_that_is_not_a_text(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """The message says what came and what is allowed."""
    pipe = pipeline("self-attention", model=classifier, tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"must be a text or a pair .*; 7 came"):
        pipe(7)
    with pytest.raises(ValueError, match=r"must be a text or a pair .*'premise'"):
        pipe({"premise": "a", "hypothesis": "b"})


def test_pipeline_refuses_a_single_text_for_a_model_of_pairs(
    nli: SelfAttentiveForNLI, tokenizer: TokenizersBackend
) -> None:
    """With one side empty every text would get the same answer."""
    pipe = pipeline("self-attention", model=nli, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="SelfAttentiveForNLI compares two texts, and one came"):
        pipe("Two dogs sleep.")


def test_pipeline_refuses_a_model_without_attention(tokenizer: TokenizersBackend) -> None:
    """The way out is the stock pipeline, which does work."""
    model = SelfAttentiveForSequenceClassification(config_for(tokenizer, pooling="max")).eval()
    with pytest.raises(ValueError, match=r"pooling='max' has none to show; use text"):
        pipeline("self-attention", model=model, tokenizer=tokenizer)
    stock = pipeline("text-classification", model=model, tokenizer=tokenizer)
    assert stock(TEXT)[0]["label"] in model.config.label2id


def test_stock_pipelines_answer_the_same_alone_and_in_batches(
    classifier: SelfAttentiveForSequenceClassification,
    nli: SelfAttentiveForNLI,
    tokenizer: TokenizersBackend,
) -> None:
    """text-classification on texts and pairs, zero-shot on the entailment model."""
    texts = [TEXT, "", "good"]
    for model, inputs in ((classifier, texts), (nli, [PAIR, {"text": "", "text_pair": "No"}])):
        pipe = pipeline("text-classification", model=model, tokenizer=tokenizer)
        singly = [pipe(item, top_k=None) for item in inputs]
        for alone, batched in zip(singly, pipe(inputs, top_k=None, batch_size=3), strict=True):
            for one, other in zip(alone, batched, strict=True):
                assert one["label"] == other["label"]
                assert one["score"] == pytest.approx(other["score"], abs=1e-6)
    pipe = pipeline("zero-shot-classification", model=nli, tokenizer=tokenizer)
    alone = pipe(TEXT, candidate_labels=["dogs", "bread"])
    batched = pipe([TEXT, "good"], candidate_labels=["dogs", "bread"], batch_size=4)[0]
    assert alone["labels"] == batched["labels"]
    assert alone["scores"] == pytest.approx(batched["scores"], abs=1e-6)
    assert sum(alone["scores"]) == pytest.approx(1)


def test_feature_extraction_gives_the_states_of_every_token(
    classifier: SelfAttentiveForSequenceClassification, tokenizer: TokenizersBackend
) -> None:
    """One vector of width H per token."""
    pipe = pipeline("feature-extraction", model=classifier.encoder, tokenizer=tokenizer)
    states = torch.tensor(pipe(TEXT))
    expected = classifier.encoder(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(states, expected.detach())


def test_evaluator_of_evaluate_measures_our_models(
    classifier: SelfAttentiveForSequenceClassification,
    nli: SelfAttentiveForNLI,
    tokenizer: TokenizersBackend,
) -> None:
    """Texts and pairs, by label names, with the accuracy that a hand counts."""
    texts = [TEXT, "good", "not bread", "the soup"]
    pipe = pipeline("text-classification", model=classifier, tokenizer=tokenizer)
    ids = [classifier.config.label2id[answer["label"]] for answer in pipe(texts)]
    wrong = (ids[0] + 1) % 3
    measured = evaluator("text-classification").compute(
        model_or_pipeline=classifier,
        tokenizer=tokenizer,
        data=Dataset.from_dict({"text": texts, "label": [wrong, *ids[1:]]}),
        metric=load_metrics(["accuracy"], "single_label_classification")[0],
        label_mapping=classifier.config.label2id,
    )
    assert measured["accuracy"] == 0.75

    pairs = {"premise": [PAIR["text"]] * 2, "hypothesis": [PAIR["text_pair"], "dogs"]}
    rows = [
        dict(zip(("text", "text_pair"), row, strict=True))
        for row in zip(*pairs.values(), strict=True)
    ]
    pipe = pipeline("text-classification", model=nli, tokenizer=tokenizer)
    ids = [nli.config.label2id[answer["label"]] for answer in pipe(rows)]
    measured = evaluator("text-classification").compute(
        model_or_pipeline=nli,
        tokenizer=tokenizer,
        data=Dataset.from_dict({**pairs, "label": ids}),
        metric=load_metrics(["accuracy"], "single_label_classification")[0],
        input_column="premise",
        second_input_column="hypothesis",
        label_mapping=nli.config.label2id,
    )
    assert measured["accuracy"] == 1.0
