"""The heads: classifiers, matching, ranking, and the loss with its penalty."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import reference
import tiny
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
)
from sase_hf.models.modeling_self_attentive import (
    SelfAttentivePreTrainedModel,
    penalised_loss,
    row_scores,
    unit_rows,
)

CLASSIFIERS = ("mlp", "pruned_mlp")
LINEAR_PARTS = ("none", "words", "words_and_pairs")


PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
# What else a loss may have.
OPTIONS = {
    PROBLEMS[0]: ({}, {"label_smoothing": 0.2}, {"class_weights": [0.5, 1.0, 3.0]}),
    PROBLEMS[1]: ({},),
    PROBLEMS[2]: ({}, {"target_mean": [100, -3, 0], "target_deviation": [50, 2, 1]}),
}


def random_labels(rng: random.Random, problem_type: str, count: int) -> list[Any]:
    """Draw one label per example: a class of three, or a number for each of three outputs.

    Half of the batches with one class per example have soft labels.
    """
    if problem_type == "single_label_classification":
        if rng.random() < 0.5:
            return [[share := rng.random() / 2, 0.5 - share, 0.5] for _ in range(count)]
        return [rng.randrange(3) for _ in range(count)]
    highest = 1 if problem_type == "multi_label_classification" else 5
    return [[float(rng.randint(0, highest)) for _ in range(3)] for _ in range(count)]


def assert_head_agrees(
    model: SelfAttentivePreTrainedModel,
    batch: dict[str, Tensor],
    pairs: Sequence[tuple[tiny.Ids, tiny.Ids]],
    labels: Sequence[Any],
    marks: Sequence[tuple[Sequence[float], Sequence[float]]] = (),
) -> None:
    """Compare logits, penalty, cost of marks, loss and every gradient with the reference.

    A text classifier reads both texts of a row as one.
    """
    weights = tiny.reference_weights(model)
    if marks:  # those on padding are not read
        is_real = batch["attention_mask"] == 1
        rationale = batch["rationale"] = torch.full(is_real.shape, 7.0)
        rationale[is_real] = torch.tensor([mark for row in marks for side in row for mark in side])
    outputs = model.train(bool(marks))(**batch, labels=torch.tensor(labels))
    outputs.loss.backward()

    cost = partial(reference.rationale_cost, model.config, reference.part(weights, "encoder."))
    if isinstance(model, SelfAttentiveForNLI):
        predictions = [reference.classify_pair(model.config, weights, *pair) for pair in pairs]
        sides = (zip(*row, strict=True) for row in zip(pairs, marks, strict=False))
        costs = [cost(*first) + cost(*second) for first, second in sides]
    else:
        texts = [one + other for one, other in pairs]
        predictions = [reference.classify_text(model.config, weights, text) for text in texts]
        costs = [cost(text, [*a, *b]) for text, (a, b) in zip(texts, marks, strict=False)]
    expected = reference.loss(model.config, predictions, labels)
    if marks:
        tiny.assert_agree(outputs.rationale_cost, torch.stack(costs))
        expected = expected + model.config.rationale_coef * sum(costs) / len(costs)
    expected.backward()

    logits, penalties = zip(*predictions, strict=True)
    tiny.assert_agree(outputs.logits, torch.stack(logits))
    tiny.assert_agree(outputs.penalty, torch.stack(penalties))
    tiny.assert_agree(outputs.loss, expected)
    tiny.assert_gradients_agree(model, weights)


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (SelfAttentiveForSequenceClassification, {"pooling": "self_attention"}),
        (SelfAttentiveForSequenceClassification, {"pooling": "max"}),
        (SelfAttentiveForNLI, {"matching": "gated"}),
        (SelfAttentiveForNLI, {"matching": "concat"}),
    ],
    ids=lambda value: "" if isinstance(value, type) else tiny.name_of(value),
)
@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("problem_type", PROBLEMS)
def test_head_is_the_papers(
    head: type[SelfAttentivePreTrainedModel],
    problem_type: str,
    classifier: str,
    fields: dict[str, Any],
) -> None:
    """Logits, penalty, loss and gradients; what is not given is drawn.

    The sentences of a pair go through one encoder, and are matched row by row. Smoothing and class
    weights leave the penalty as it is. Both texts of a pair may have marks, or one, or none.
    """
    rng = random.Random(f"{head.__name__} {problem_type} {classifier} {fields}")
    architectures = tiny.ENCODERS if "pooling" in fields else tiny.ARCHITECTURES
    words_of_both = ([9, 2, 2], [2, 9, 4])
    pairs = [*tiny.random_pairs(rng, 2), words_of_both]
    for options in OPTIONS[problem_type]:
        model = tiny.tiny_model(
            head,
            problem_type=problem_type,
            classifier=classifier,
            num_labels=3,
            penalty_coef=0.7,
            rationale_coef=0.6,
            linear_part=rng.choice(LINEAR_PARTS),
            **options,
            **tiny.random_sizes(rng, **rng.choice(architectures), **fields),
        )
        labels = random_labels(rng, problem_type, 3)
        model.double()  # a layer norm of a state of two numbers can magnify float32's rounding
        marks = [
            tuple([weight * rng.randint(0, 1) for _ in text] for text in pair)
            for weight, pair in zip((1.0, 2.5, 0.0), pairs, strict=True)
        ]
        batch = tiny.pair_batch(pairs, rng.choice(tiny.PADDINGS), rng, extra=2)
        has_marks = model.config.has_hops and rng.random() < 0.7
        assert_head_agrees(model, batch, pairs, labels, marks if has_marks else ())


def test_loss_of_one_output_takes_flat_labels() -> None:
    """Regression labels come as (B,) from a data collator and as (B, 1) from careful callers."""
    model = tiny.tiny_model(SelfAttentiveForSequenceClassification, num_labels=1)
    assert model.config.problem_type == "regression"
    batch = tiny.text_batch([[1, 2, 3], [5], [6, 7]])
    labels = torch.tensor([2.5, -1.0, 0.0])
    flat = model(**batch, labels=labels).loss
    assert torch.equal(flat, model(**batch, labels=labels.unsqueeze(1)).loss)


@tiny.needs_bfloat16_lstm
def test_head_computes_its_outputs_in_float32_under_autocast() -> None:
    """Bfloat16 knows every eighth number from 1024 on, and probabilities in it tie."""
    fields = {"problem_type": "regression", "target_mean": [2000], "target_deviation": [10]}
    model = tiny.tiny_model(SelfAttentiveForSequenceClassification, num_labels=1, **fields)
    batch = tiny.text_batch([[1, 2, 3], [4, 5], [6]])
    exact = model(**batch).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(**batch).logits
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.5)
    assert model.bfloat16()(**batch).logits.dtype == torch.float32


@pytest.mark.parametrize(
    ("problem_type", "labels", "message"),
    [
        (None, torch.zeros(2, 3), "set config.problem_type to what they are: .multi"),
        ("single_label_classification", torch.zeros(3), r"shape \(3,\); .* need 3 for each"),
        ("multi_label_classification", torch.zeros(3, 2), r"labels have shape \(3, 2\)"),
        ("regression", torch.zeros(6), r"labels have shape \(6,\); .* need 3 for each"),
    ],
)
def test_loss_refuses_labels_it_cannot_read(
    problem_type: str | None, labels: Tensor, message: str
) -> None:
    """Floats may be sets or targets; another shape would train on wrong targets unnoticed."""
    fields = {"num_labels": 3, "problem_type": problem_type}
    model = tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields)
    with pytest.raises(ValueError, match=message):
        model(**tiny.text_batch([[1, 2, 3], [4, 5]]), labels=labels)


@pytest.mark.parametrize("problem_type", PROBLEMS)
def test_loss_of_parts_of_a_batch_adds_up(problem_type: str) -> None:
    """`Trainer` counts the labels of all accumulated batches and sums the losses of the parts.

    Rows whose label is -100 count neither for the task loss nor for the penalty. Without any
    label the loss is 0: 0 / 0 would be NaN and end a training at the last, unlucky batch.
    """
    rng = random.Random(0)
    model = tiny.tiny_model(SelfAttentiveForNLI, problem_type=problem_type, num_labels=3)
    batch = tiny.pair_batch(tiny.random_pairs(rng, 8))
    labels = torch.tensor(random_labels(rng, problem_type, 8))
    labels[[0, 2, 6]] = -100
    whole = model(**batch, labels=labels).loss
    counted = [1, 3, 4, 5, 7]
    kept = {name: tensor[counted] for name, tensor in batch.items()}
    torch.testing.assert_close(whole, model(**kept, labels=labels[counted]).loss)
    items, total = labels.ne(-100).sum(), torch.zeros(())
    for part in torch.arange(8).split([1, 4, 3]):
        piece = {name: tensor[part] for name, tensor in batch.items()}
        total += model(**piece, labels=labels[part], num_items_in_batch=items).loss
    torch.testing.assert_close(total, whole, rtol=1e-6, atol=1e-6)
    labels.fill_(-100)
    for items in (None, torch.tensor(0)):  # Trainer counts 0 labels then
        assert model(**batch, labels=labels, num_items_in_batch=items).loss.item() == 0


def test_nli_refuses_a_pair_without_token_types() -> None:
    with pytest.raises(ValueError, match="token_type_ids are missing"):
        tiny.tiny_model(SelfAttentiveForNLI)(torch.ones(2, 3, dtype=torch.long))


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_dropout_is_random_in_training_and_absent_after_it(classifier: str) -> None:
    """The encoder's dropout changes what is attended to, the classifier's only the answer."""
    batch = tiny.pair_batch([([1, 2, 3], [4, 5])])
    for place, reaches_penalty in (("embedding_dropout", True), ("classifier_dropout", False)):
        model = tiny.tiny_model(SelfAttentiveForNLI, classifier=classifier, **{place: 0.5})
        assert torch.equal(model(**batch).logits, model(**batch).logits)
        model.train()
        once, twice = model(**batch), model(**batch)
        assert not torch.equal(once.logits, twice.logits)
        assert torch.equal(once.penalty, twice.penalty) is not reaches_penalty


RANKED = [([1, 2, 3], [4, 5, 6, 7]), ([8, 9], [10, 11, 12]), ([13], [14, 15, 1])]


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@pytest.mark.parametrize("pooling", ["self_attention", "mean"])
@pytest.mark.parametrize("score_mode", ["rows", "flat"])
def test_retrieval_head_is_the_reference(score_mode: str, pooling: str, padding: str) -> None:
    """Scores of all pairs, of the own pairs, loss and every gradient."""
    rng = random.Random(f"{score_mode} {pooling} {padding}")
    fields = {"score_mode": score_mode, "pooling": pooling, "score_temperature": 0.3}
    model = tiny.tiny_model(SelfAttentiveForRetrieval, penalty_coef=0.7, **fields)
    weights = tiny.reference_weights(model)
    outputs = model(**tiny.pair_batch(RANKED, padding, rng, extra=2), return_loss=True)
    outputs.loss.backward()
    scores, loss = reference.rank(model.config, weights, RANKED)
    loss.backward()
    tiny.assert_agree(outputs.logits, scores.diagonal().unsqueeze(1))
    sides = unit_rows(outputs.sentence_embedding, model.config).unbind(1)
    tiny.assert_agree(row_scores(*sides), scores)
    tiny.assert_agree(outputs.loss, loss)
    tiny.assert_gradients_agree(model, weights)


def test_retrieval_head_shows_the_document_row_that_each_query_row_met() -> None:
    """Only where it is asked to: all else takes the rows for hops."""
    model = tiny.tiny_model(SelfAttentiveForRetrieval)
    batch = tiny.pair_batch(RANKED[:1])
    asked = {"match_rows": True, "output_attentions": True}
    outputs = model(**batch, **asked)
    plain = tiny.tiny_model(SelfAttentiveForNLI)
    plain.encoder.load_state_dict(model.encoder.state_dict())
    query, document = plain(**batch, output_attentions=True).attentions[0][0]
    q, d = outputs.sentence_embedding.double().view(2, 3, -1)
    nearest = [
        max(range(3), key=lambda j: torch.cosine_similarity(q[i], d[j], 0)) for i in range(3)
    ]
    assert nearest != [0, 1, 2], "the premise: rows meet others than their own"
    assert torch.equal(outputs.attentions[0][0, 0], query)
    assert torch.equal(outputs.attentions[0][0, 1], document[nearest])


def test_retrieval_head_reads_texts_of_any_length() -> None:
    """An empty text is like nothing: its score is 0."""
    batch = tiny.pair_batch([([1], [2] * 4000), ([], [2, 3]), ([1], [])])
    outputs = tiny.tiny_model(SelfAttentiveForRetrieval)(**batch, return_loss=True)
    assert outputs.loss.isfinite()
    assert outputs.logits.ne(0).flatten().tolist() == [True, False, False]


def test_retrieval_head_loads_from_its_own_and_any_other_checkpoint(tmp_path: Path) -> None:
    """As a head with one output."""
    tiny.tiny_model(SelfAttentiveForNLI, num_labels=3).save_pretrained(tmp_path / "nli")
    model = SelfAttentiveForRetrieval.from_pretrained(tmp_path / "nli").eval()
    assert model.config.id2label == {0: "score"}
    model.save_pretrained(tmp_path / "ranker")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ranker")
    assert type(loaded) is SelfAttentiveForRetrieval
    batch = tiny.pair_batch(RANKED)
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)


def test_loss_takes_only_probabilities_as_soft_labels() -> None:
    """A row with -100 does not count; numbers that are no probabilities are refused."""
    config = tiny.tiny_config(problem_type="single_label_classification", num_labels=3)
    logits, row = torch.randn(2, 3), [0.2, 0.3, 0.5]

    def loss(*labels: list[float]) -> torch.Tensor:
        return penalised_loss(
            logits[: len(labels)], torch.tensor(labels), torch.zeros(len(labels)), config
        )

    torch.testing.assert_close(loss(row, [-100.0, 0.2, 0.8]), loss(row))
    for wrong in ([1.0, 1.0, 0.0], [-0.5, 1.0, 0.5], [0.0, 0.0, 0.0], [torch.nan, 0.5, 0.5]):
        with pytest.raises(ValueError, match="must be probabilities"):
            loss(row, wrong)
