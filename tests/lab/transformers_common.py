"""The tests that transformers runs on each of its own models, run on ours.

They are in the source distribution of transformers, not in the installed package. Run them with
`python scripts/lab/common_tests.py`, which fetches them as the package `transformers_tests`.
"""

import unittest
from typing import Any, ClassVar

import pytest
import tiny
import tiny_translation
import torch
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from sase_hf import (
    RNNSearchConfig,
    RNNSearchForConditionalGeneration,
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)

common = pytest.importorskip(
    "transformers_tests.test_modeling_common", reason="fetched by scripts/lab/common_tests.py"
)
configuration = pytest.importorskip("transformers_tests.test_configuration_common")

# By these names the tests find the task of a model, and so its loss and labels.
MODEL_MAPPING_NAMES["self_attentive"] = "SelfAttentiveModel"
MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES["self_attentive"] = (
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveForNLI",
)
MODEL_MAPPING_NAMES["rnnsearch"] = "RNNSearchModel"
MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES["rnnsearch"] = "RNNSearchForConditionalGeneration"


SHAPE = (5, 7)  # of a batch of unequal lengths
LENGTHS = torch.arange(2, 2 + SHAPE[0]).unsqueeze(1)
MASK = (torch.arange(SHAPE[1]) < LENGTHS).long()


class ModelTester:
    """The tiny config and the inputs that the common tests ask for."""

    batch_size, seq_length = SHAPE
    hidden_size = 8
    num_hidden_layers = 2
    is_training = True

    def prepare_config_and_inputs_for_common(self) -> tuple[SelfAttentiveConfig, dict[str, Any]]:
        """Return a config and a batch of pairs."""
        inputs = {
            "input_ids": torch.randint(1, tiny.VOCAB_SIZE, SHAPE),
            "attention_mask": MASK,
            "token_type_ids": (torch.arange(SHAPE[1]).expand(SHAPE) >= LENGTHS // 2).long(),
        }
        config = tiny.tiny_config(
            num_lstm_layers=self.num_hidden_layers,
            lstm_hidden_size=self.hidden_size // 2,
            embedding_size=self.hidden_size,  # the common tests want hidden states of one width
        )
        return config, inputs


class CheckedModelTests(common.ModelTesterMixin):
    """The tests of models with checked weights."""

    @unittest.skip("the test replaces the weights, and SHA256SUMS refuses replaced ones")
    def test_model_weights_reload_no_missing_tied_weights(self) -> None:
        """Not for checked weights."""


class CommonTests(CheckedModelTests):
    """Settings for both groups of models of the paper."""

    # The common tests want square attention maps, (heads, T, T) for each layer; ours is (r, T).
    has_attentions = False
    test_can_init_all_missing_weights_before_2023 = True

    def setUp(self) -> None:
        """Make the tester, as the tests of each model do."""
        self.model_tester = ModelTester()


class TextModelsTest(CommonTests, unittest.TestCase):
    """The base model and the text classifier."""

    all_model_classes: ClassVar = (SelfAttentiveModel, SelfAttentiveForSequenceClassification)

    def test_config(self) -> None:
        """Run the common tests of configs."""
        configuration.ConfigTester(
            self, config_class=SelfAttentiveConfig, lstm_hidden_size=9
        ).run_common_tests()


class PairModelTest(CommonTests, unittest.TestCase):
    """The entailment head."""

    all_model_classes: ClassVar = (SelfAttentiveForNLI,)

    @unittest.skip("the hidden states of a pair are views, beside the path of the gradient")
    def test_retain_grad_hidden_states_attentions(self) -> None:
        """Not for pairs."""


class TranslationTester:
    """The tiny config and the inputs of the translation models."""

    batch_size, seq_length = SHAPE
    encoder_seq_length = decoder_seq_length = seq_length
    hidden_size = 8
    num_hidden_layers = 1
    is_training = True

    def prepare_config_and_inputs_for_common(self) -> tuple[RNNSearchConfig, dict[str, Any]]:
        """Return a config and a batch of pairs."""
        config = RNNSearchConfig(**{**tiny_translation.SIZES, "hidden_size": self.hidden_size})
        source, target = torch.randint(3, config.vocab_size, (2, *SHAPE))
        inputs = {"input_ids": source, "attention_mask": MASK, "decoder_input_ids": target}
        return config, inputs


class TranslationModelsTest(CheckedModelTests, unittest.TestCase):
    """The translation model and its encoder."""

    all_model_classes: ClassVar = (RNNSearchForConditionalGeneration,)
    has_attentions = False  # ours are of the target words to the source, and no square maps

    def setUp(self) -> None:
        """Make the tester, as the tests of each model do."""
        self.model_tester = TranslationTester()

    def test_config(self) -> None:
        """Run the common tests of configs."""
        properties = ["hidden_size", "num_hidden_layers", "vocab_size"]
        configuration.ConfigTester(
            self, config_class=RNNSearchConfig, common_properties=properties, hidden_size=9
        ).run_common_tests()

    @unittest.skip("the distribution lacks the tests of text generation; ours have a file")
    def test_generation_tester_mixin_inheritance(self) -> None:
        """Not here."""

    @unittest.skip("word vectors, annotations and maxout layer differ in width")
    def test_hidden_states_output(self) -> None:
        """Not for translation."""
