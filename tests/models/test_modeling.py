"""The base model: sentence matrix, attention and penalty."""

import pickle
import random
from typing import Any

import pytest
import reference
import tiny
import torch

from sase_hf import SelfAttentiveModel


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


def test_model_without_a_mask_reads_every_token() -> None:
    """The mask alone decides which tokens are real; the id of padding does not."""
    model = tiny.tiny_model(SelfAttentiveModel)
    ids = torch.tensor([[1, 2, 0, 3, 0]])
    plain, masked = model(ids), model(ids, attention_mask=torch.ones(1, 5))
    assert torch.equal(plain.sentence_embedding, masked.sentence_embedding)
    without = model(ids, attention_mask=(ids != 0).long())
    assert not torch.equal(plain.sentence_embedding, without.sentence_embedding)


def test_output_is_copied_with_what_it_holds() -> None:
    """Also to another process."""
    with torch.inference_mode():
        output = tiny.tiny_model(SelfAttentiveModel)(torch.tensor([[1, 2, 3]]))
    same = pickle.loads(pickle.dumps(output))
    assert same.keys() == output.keys()
    torch.testing.assert_close(same.to_tuple(), output.to_tuple())


def test_model_refuses_inputs_of_another_shape() -> None:
    """A mask is never broadcast, and no LSTM reads beyond its weights."""
    model = tiny.tiny_model(SelfAttentiveModel)
    with pytest.raises(ValueError, match="attention_mask has shape"):
        model(torch.ones(2, 3).long(), torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="equal to input_size"):
        model(inputs_embeds=torch.ones(2, 3, 7))
