"""Configuration of RNNsearch, the translation model with attention, and of RNNencdec without."""

from huggingface_hub.dataclasses import strict

from .checked_config import MAX_VOCAB_SIZE, CheckedConfig, flag


@strict
class RNNSearchConfig(CheckedConfig):
    """Sizes and choices of a translation model; the defaults are the paper's.

    Symbols are those of Bahdanau, Cho and Bengio, *Neural Machine Translation by Jointly Learning
    to Align and Translate* (ICLR 2015). The declaration of each field describes it. The errors are
    those of `SelfAttentiveConfig`.
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
    fields_of_training = ("dropout", "label_smoothing", "initializer_range", "use_cache")
    num_hidden_layers = 1  # read by transformers
    # K_x and K_y, the rows of each of the two embedding matrices: one tokenizer serves both
    # languages.
    vocab_size: int = 30000
    max_tokens: int = flag("Tokens of a source, and of a target to learn, that are read.", 1024)
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
        "Dropout of the word vectors, the annotations and the maxout layer; the paper has 0.", 0.0
    )
    # This field replaces `label_smoothing_factor`, because with that factor `Trainer` computes the
    # loss itself, which is not exact.
    label_smoothing: float | int = flag(
        "Share of the target probability that is spread over all words, in training only.", 0.0
    )
    pad_token_id: int = 0  # the row of both embedding matrices that stays zero
    eos_token_id: int = 2  # ends a sentence
    decoder_start_token_id: int = 0  # y_0, the word before the first; padding has the vector 0
    initializer_range: float | int = flag(
        "Standard deviation of new weights, except recurrent and alignment weights.", 0.01
    )
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    use_cache: bool = True

    @property
    def projection_dim(self) -> int:
        """Width of the states and of the sentence embedding: 2n, or n for RNNencdec."""
        return (2 if self.has_attention else 1) * self.hidden_size

    def validate_fields(self) -> None:
        """Refuse sizes, rates and tokens that no model can have; `strict` calls this."""
        sizes = ("vocab_size", "max_tokens", "embedding_size", "hidden_size", "attention_size")
        self.check_sizes((*sizes, "maxout_size"), {"vocab_size": MAX_VOCAB_SIZE})
        self.check_rates("dropout")
        self.check_label_smoothing()
        self.check_weights("initializer_range")
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            token = getattr(self, name)
            if not 0 <= token < self.vocab_size:
                raise ValueError(
                    f"{name} is {token}; it must be below vocab_size={self.vocab_size}"
                )
        if self.eos_token_id == self.pad_token_id:
            raise ValueError(
                f"eos_token_id and pad_token_id are both {self.eos_token_id}; a sentence could not "
                "end. Give them different ids"
            )
