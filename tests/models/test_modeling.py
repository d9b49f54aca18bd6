"""The base model: sentence matrix, attention and penalty."""

import random
from typing import Any

import pytest
import reference
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveForNLI, SelfAttentiveModel

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@pytest.mark.parametrize("fields", tiny.ARCHITECTURES, ids=tiny.name_of)
def test_states_attention_matrix_penalty_and_gradients_are_the_papers(
    fields: dict[str, Any], padding: str
) -> None:
    """In a padded batch every sentence gets what the paper's loops give it alone."""
    rng = random.Random(f"{fields} {padding}")
    model = tiny.tiny_model(SelfAttentiveModel, **tiny.random_sizes(rng, **fields))
    weights = tiny.reference_weights(model)
    probe = torch.randn(model.config.projection_dim)  # a different weight for each entry of M
    texts = [tiny.random_text(rng) for _ in range(4)]
    batch = tiny.text_batch(texts, padding, rng, extra=2)
    outputs = model(**batch, output_attentions=True)
    (outputs.sentence_embedding @ probe + outputs.penalty).sum().backward()

    for row, text in enumerate(texts):
        expected = reference.encode(model.config, weights, text)
        (expected.M.flatten() @ probe.double() + expected.P).backward()
        real = batch["attention_mask"][row].bool()
        tiny.assert_agree(outputs.last_hidden_state[row, real], expected.H)
        tiny.assert_agree(outputs.sentence_embedding[row], expected.M.flatten())
        tiny.assert_agree(outputs.penalty[row], expected.P)
        tiny.assert_agree(outputs.attentions[0][row, :, real], expected.A)
    tiny.assert_gradients_agree(model, weights)


@pytest.mark.parametrize("model_class", [SelfAttentiveModel, SelfAttentiveForNLI])
def test_model_inputs_embeds_equal_ids(model_class: type[Any]) -> None:
    model = tiny.tiny_model(model_class)
    batch = tiny.pair_batch([([1, 2, 3], [4, 5]), ([6], [7])])
    by_ids = model(**batch, return_dict=False)
    vectors = model.get_input_embeddings()(batch.pop("input_ids"))
    by_vectors = model(**batch, inputs_embeds=vectors).to_tuple()
    assert all(torch.equal(one, other) for one, other in zip(by_ids, by_vectors, strict=True))


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about itself
@pytest.mark.parametrize("pooling", ["self_attention", "last"])
@torch.no_grad()
def test_model_compiled_equals_eager_at_any_length(pooling: str) -> None:
    """The graph alone is computed: the C++ code that torch makes of it takes a minute."""
    rng = random.Random(1)
    model = tiny.tiny_model(SelfAttentiveModel, pooling=pooling)
    compiled = torch.compile(model, dynamic=True, backend="aot_eager")
    for count, padding, extra in ((3, "left", 7), (5, "holed", 30)):
        texts = [tiny.random_text(rng) for _ in range(count)] + [[]]
        batch = tiny.text_batch(texts, padding, rng, extra)
        for graph, eager in zip(compiled(**batch).values(), model(**batch).values(), strict=True):
            torch.testing.assert_close(graph, eager, rtol=1e-5, atol=1e-5)


def test_model_without_a_mask_reads_every_token() -> None:
    """The mask alone decides which tokens are real; the id of padding does not."""
    model = tiny.tiny_model(SelfAttentiveModel)
    ids = torch.tensor([[1, 2, 0, 3, 0]])
    plain, masked = model(ids), model(ids, attention_mask=torch.ones(1, 5))
    assert torch.equal(plain.sentence_embedding, masked.sentence_embedding)
    without = model(ids, attention_mask=(ids != 0).long())
    assert not torch.equal(plain.sentence_embedding, without.sentence_embedding)


IDS = torch.ones(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        # never broadcast
        ({"input_ids": IDS, "attention_mask": torch.ones(1, 3)}, "attention_mask has shape"),
    ],
)
def test_model_refuses_inputs_of_another_shape(inputs: dict[str, Tensor], message: str) -> None:
    """The most likely mistake is a sentence without a batch dimension."""
    with pytest.raises(ValueError, match=message):
        tiny.tiny_model(SelfAttentiveModel)(**inputs)
