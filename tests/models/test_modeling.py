"""The base model: sentence matrix, attention and penalty."""

import random
from typing import Any

import pytest
import reference
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveForNLI, SelfAttentiveModel

pytestmark = pytest.mark.usefixtures("many_blocks")

every_architecture = pytest.mark.parametrize("fields", tiny.ARCHITECTURES, ids=tiny.name_of)


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@every_architecture
def test_states_attention_matrix_and_penalty_are_the_papers(
    fields: dict[str, Any], padding: str
) -> None:
    """In a padded batch every sentence gets what the paper's loops give it alone."""
    rng = random.Random(f"{fields} {padding}")
    model = tiny.tiny_model(SelfAttentiveModel, **tiny.random_sizes(rng, **fields))
    weights = tiny.reference_weights(model)
    texts = [tiny.random_text(rng) for _ in range(4)]
    batch = tiny.text_batch(texts, padding, rng, extra=2)
    outputs = model(**batch, output_attentions=True)

    for row, text in enumerate(texts):
        expected = reference.encode(model.config, weights, text)
        real = batch["attention_mask"][row].bool()
        tiny.assert_agree(outputs.last_hidden_state[row, real], expected.H)
        tiny.assert_agree(outputs.sentence_embedding[row], expected.M.flatten())
        tiny.assert_agree(outputs.penalty[row], expected.P)
        if expected.A is None:
            assert outputs.attentions is None
        else:
            tiny.assert_agree(outputs.attentions[0][row, :, real], expected.A)


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@every_architecture
def test_gradients_of_the_base_model_are_the_references(
    fields: dict[str, Any], padding: str
) -> None:
    """Every parameter gets the gradient that autograd finds in the loops."""
    rng = random.Random(f"{fields} {padding}")
    model = tiny.tiny_model(SelfAttentiveModel, **tiny.random_sizes(rng, **fields))
    weights = tiny.reference_weights(model)
    texts = [tiny.random_text(rng) for _ in range(3)]
    probe = torch.randn(model.config.projection_dim)  # a different weight for each entry of M

    outputs = model(**tiny.text_batch(texts, padding, rng, extra=2))
    (outputs.sentence_embedding @ probe + outputs.penalty).sum().backward()
    for text in texts:
        encoded = reference.encode(model.config, weights, text)
        (encoded.M.flatten() @ probe.double() + encoded.P).backward()

    tiny.assert_gradients_agree(model, weights)


def test_permuted_hops_give_permuted_rows() -> None:
    """The hops have no order: each row of A and M belongs to one row of W_s2."""
    model = tiny.tiny_model(SelfAttentiveModel)
    batch = tiny.text_batch([[1, 2, 3, 4], [5, 6]])
    before = model(**batch, output_attentions=True)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        model.pooling.hops.weight.copy_(model.pooling.hops.weight[order])
    after = model(**batch, output_attentions=True)

    rows = before.sentence_embedding.view(2, 3, -1)
    torch.testing.assert_close(after.sentence_embedding.view(2, 3, -1), rows[:, order])
    torch.testing.assert_close(after.attentions[0], before.attentions[0][:, order])
    torch.testing.assert_close(after.penalty, before.penalty)


@every_architecture
def test_gradcheck_of_the_whole_model(fields: dict[str, Any]) -> None:
    """From word vectors to matrix and penalty, through layers, alignment and reversal."""
    model = tiny.tiny_model(
        SelfAttentiveModel,
        **{**fields, "num_lstm_layers": 2},
        embedding_size=2,
        lstm_hidden_size=2,
        attention_size=2,
        num_hops=2,
    ).double()
    embeds = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1, 1, 1], [1, 0, 1]])

    def encode(embeds: Tensor) -> tuple[Tensor, Tensor]:
        outputs = model(inputs_embeds=embeds, attention_mask=mask)
        return outputs.sentence_embedding, outputs.penalty.double()

    assert torch.autograd.gradcheck(encode, embeds)


def test_model_inputs_embeds_equal_ids() -> None:
    """`inputs_embeds` enters where the embedding matrix's rows do."""
    model = tiny.tiny_model(SelfAttentiveModel)
    batch = tiny.text_batch([[1, 2, 3], [4, 5]])
    by_ids = model(**batch)
    by_vectors = model(
        inputs_embeds=model.embeddings(batch["input_ids"]), attention_mask=batch["attention_mask"]
    )
    assert torch.equal(by_ids.sentence_embedding, by_vectors.sentence_embedding)
    assert torch.equal(by_ids.last_hidden_state, by_vectors.last_hidden_state)


def test_model_without_a_mask_reads_every_token() -> None:
    """Ids are never compared with that of padding: which tokens are real is the mask's to say."""
    model = tiny.tiny_model(SelfAttentiveModel)
    ids = torch.tensor([[1, 2, 0, 3, 0]])
    plain, masked = model(ids), model(ids, attention_mask=torch.ones(1, 5))
    assert torch.equal(plain.sentence_embedding, masked.sentence_embedding)
    without = model(ids, attention_mask=(ids != 0).long())
    assert not torch.equal(plain.sentence_embedding, without.sentence_embedding)


def test_model_tuple_equals_its_output() -> None:
    """`return_dict=False` gives the same tensors in the order of the output's fields."""
    model = tiny.tiny_model(SelfAttentiveModel)
    batch = tiny.text_batch([[1, 2, 3]])
    output, values = model(**batch), model(**batch, return_dict=False)
    assert len(values) == 3
    assert all(torch.equal(a, b) for a, b in zip(output.to_tuple(), values, strict=True))


@pytest.mark.parametrize("where", ["argument", "config"])
def test_model_returns_states_and_attention_on_request(where: str) -> None:
    """By the call or by the config, as in transformers."""
    model = tiny.tiny_model(SelfAttentiveModel, num_lstm_layers=2)
    batch = tiny.text_batch([[1, 2, 3]])
    plain = model(**batch)
    assert plain.attentions is None
    assert plain.hidden_states is None

    asked = {"output_attentions": True, "output_hidden_states": True}
    if where == "config":
        model.config.output_attentions = model.config.output_hidden_states = True
        asked = {}
    outputs = model(**batch, **asked)
    assert [tuple(states.shape) for states in outputs.hidden_states] == [
        (1, 3, 6),
        (1, 3, 8),
        (1, 3, 8),
    ]
    assert torch.equal(outputs.hidden_states[-1], outputs.last_hidden_state)
    assert [tuple(attention.shape) for attention in outputs.attentions] == [(1, 3, 3)]


@pytest.mark.parametrize("encoder", tiny.ENCODERS, ids=tiny.name_of)
@pytest.mark.parametrize("num_layers", [2, 3])
def test_model_returns_num_hidden_layers_states(encoder: dict[str, Any], num_layers: int) -> None:
    """Tools take `num_hidden_layers` + 1 hidden states for granted, whatever the encoder."""
    sizes = {"num_lstm_layers": num_layers, "dilated_cnn_num_layers": num_layers + 2}
    model = tiny.tiny_model(SelfAttentiveModel, **{**encoder, **sizes})
    outputs = model(**tiny.text_batch([[1, 2, 3]]), output_hidden_states=True)
    assert model.config.num_hidden_layers == len(outputs.hidden_states) - 1


def test_model_refuses_ids_with_word_vectors() -> None:
    """One of them would have to be ignored."""
    model = tiny.tiny_model(SelfAttentiveModel)
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds; both came"):
        model(torch.ones(1, 2, dtype=torch.long), inputs_embeds=torch.ones(1, 2, 6))


def test_model_refuses_a_call_without_tokens() -> None:
    """There is nothing to read."""
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds; neither came"):
        tiny.tiny_model(SelfAttentiveModel)()


@pytest.mark.parametrize("head", [SelfAttentiveModel, SelfAttentiveForNLI])
@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("input_ids", (3,), r"input_ids has shape \(3,\); .*input_ids\[None\]"),
        ("input_ids", (1, 2, 3), r"input_ids has shape \(1, 2, 3\); it must have two dimensions"),
        ("inputs_embeds", (3, 6), r"inputs_embeds has shape \(3, 6\); it must have three"),
        ("inputs_embeds", (1, 3, 5), r"inputs_embeds has shape .* embedding_size=6"),
    ],
)
def test_model_refuses_tokens_of_another_shape(
    head: type[Any], name: str, shape: tuple[int, ...], message: str
) -> None:
    """The most likely slip is a sentence that is no batch."""
    tokens = torch.ones(shape, dtype=torch.long if name == "input_ids" else torch.float)
    types = torch.zeros(shape[:2], dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        tiny.tiny_model(head)(**{name: tokens}, token_type_ids=types)


@pytest.mark.parametrize("shape", [(2, 4), (1, 3), (2, 1), (2, 3, 3), (3,)])
def test_model_refuses_a_mask_of_another_shape(shape: tuple[int, ...]) -> None:
    """Never broadcast and never replaced: it would say something about the wrong tokens."""
    model = tiny.tiny_model(SelfAttentiveModel)
    ids = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"attention_mask has shape .* one entry per token, \(2,"):
        model(ids, attention_mask=torch.ones(shape))
