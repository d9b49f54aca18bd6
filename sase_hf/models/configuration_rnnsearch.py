"""Configuration of RNNsearch, the translation model with attention, and of RNNencdec without."""

from huggingface_hub.dataclasses import strict

from .checked_config import (
    MAX_VOCAB_SIZE,
    RATE,
    SMOOTHING,
    WEIGHT,
    CheckedConfig,
    described,
    flag,
)


@strict
class RNNSearchConfig(CheckedConfig):
    """Sizes and choices of a translation model; the defaults are the paper's.

    Symbols are those of Bahdanau, Cho and Bengio, *Neural Machine Translation by Jointly Learning
    to Align and Translate* (ICLR 2015). The errors are those of `SelfAttentiveConfig`.
    """

    model_type = "rnnsearch"
    keys_to_ignore_at_inference = [
        "cache",
        "past_key_values",  # the name of `cache` before transformers 5.24
        "nll",
        "cross_attentions",
        "encoder_last_hidden_state",
        "encoder_hidden_states",
        "decoder_hidden_states",
        "hidden_states",
        "last_hidden_state",
        "sentence_embedding",
    ]
    num_hidden_layers = 1  # read by transformers
    vocab_size: int = described(
        "K_x and K_y, the rows of each of the two embedding matrices: one tokenizer serves both "
        "languages.",
        30000,
        between=(1, MAX_VOCAB_SIZE),
    )
    max_tokens: int = flag("Tokens of a source that are read, and of a target in training.", 1024)
    embedding_size: int = flag("m, the width of a word vector.", 620)
    hidden_size: int = flag("n, the units of the encoder per direction and of the decoder.", 1000)
    attention_size: int = flag("n', the hidden units of the alignment model.", 1000)
    maxout_size: int = flag("l, the maxout units before the output layer.", 500)
    has_attention: bool = flag(
        "Align target words to source words. False is the paper's baseline RNNencdec: a one-way "
        "encoder whose last state is the context of every step.",
        default=True,
    )
    dropout: float | int = flag(
        "Dropout of the word vectors, the annotations and the maxout layer; the paper has 0.",
        0.0,
        between=RATE,
    )
    # This field replaces `label_smoothing_factor`, because with that factor `Trainer` computes the
    # loss itself, which is not exact.
    label_smoothing: float | int = flag(
        "Share of the target probability that is spread over all words, in training only.",
        0.0,
        between=SMOOTHING,
    )
    pad_token_id: int = described("The row of both matrices that stays zero.", 0, is_id=True)
    eos_token_id: int = described("The token that ends a sentence.", 2, is_id=True)
    decoder_start_token_id: int = described(
        "y_0, the word before the first; padding has the vector 0.", 0, is_id=True
    )
    initializer_range: float | int = flag(
        "Standard deviation of new weights, except recurrent and alignment weights.",
        0.01,
        between=WEIGHT,
    )
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False

    @property
    def projection_dim(self) -> int:
        """Width of the states and of the sentence embedding: 2n, or n for RNNencdec."""
        return (2 if self.has_attention else 1) * self.hidden_size
