"""Configuration of RNNsearch, the translation model with attention, and of RNNencdec without."""

import difflib
import math
from dataclasses import fields
from numbers import Integral
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

MAX_VOCAB_SIZE, MAX_LAYER_SIZE = 2**27, 2**20
MAX_NUM_LABELS = 2**16  # without names


@strict
class RNNSearchConfig(PreTrainedConfig):
    r"""Sizes and choices of a translation model; the defaults are the paper's.

    Symbols are those of Bahdanau, Cho and Bengio, *Neural Machine Translation by Jointly Learning
    to Align and Translate* (ICLR 2015).

    Args:
        vocab_size: K_x and K_y, the rows of each of the two embedding matrices. One tokenizer
            serves both languages.
        embedding_size: m, the width of a word vector.
        hidden_size: n, the units of the encoder per direction and of the decoder.
        attention_size: n', the hidden units of the alignment model.
        maxout_size: l, the maxout units of the deep output.
        has_attention: Whether each target word attends to the source words. False makes the
            paper's baseline RNNencdec (Cho et al., 2014): a one-way encoder whose last state is the
            context of every step.
        dropout: Acts on the word vectors of both languages, on the annotations h_j and on the
            maxout layer. The paper has none.
        label_smoothing: Share of the target probability spread over the vocabulary, in training
            only. Use it instead of `TrainingArguments.label_smoothing_factor`, which takes the
            labels away from the model and with them its exact loss.
        pad_token_id: The row of both embedding matrices that stays zero.
        eos_token_id: The word that ends a sentence.
        decoder_start_token_id: y_0, the word before the first; that of padding has the word vector
            0.
        initializer_range: Standard deviation of fresh weights other than the recurrent ones, which
            start orthogonal, and those of the alignment model.

    Raises:
        StrictDataclassFieldValidationError: If a field has the wrong type.
        StrictDataclassClassValidationError: If a size, a rate or a token is out of range.
        TypeError: If an unknown keyword looks like a misspelt field.
    """

    model_type = "rnnsearch"
    keys_to_ignore_at_inference = [
        "past_key_values",
        "nll",
        "cross_attentions",
        "encoder_last_hidden_state",
        "encoder_hidden_states",
        "decoder_hidden_states",
        "hidden_states",
        "last_hidden_state",
        "sentence_embedding",
    ]
    # Read by transformers.
    bos_token_id = sep_token_id = None
    num_hidden_layers = 1
    # Pipeline tasks that an installed package provides, so that a checkpoint's code is not needed.
    local_pipelines = tuple[str, ...]()
    vocab_size: int = 30000
    embedding_size: int = 620
    hidden_size: int = 1000
    attention_size: int = 1000
    maxout_size: int = 500
    has_attention: bool = True
    dropout: float | int = 0.0
    label_smoothing: float | int = 0.0
    pad_token_id: int = 0
    eos_token_id: int = 2
    decoder_start_token_id: int = 0
    initializer_range: float | int = 0.01
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    use_cache: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse misspelt names; leave out the pipelines that the package provides."""
        self._refuse_misspelt_fields(kwargs)
        tasks = kwargs.pop("custom_pipelines", None) or {}
        if kept := {task: tasks[task] for task in tasks if task not in self.local_pipelines}:
            kwargs["custom_pipelines"] = kept
        super().__post_init__(**kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field."""
        if name == "num_labels":  # before transformers makes a name for each
            is_number = isinstance(value, Integral) and not isinstance(value, bool)
            if not is_number or not 1 <= value <= MAX_NUM_LABELS:
                raise ValueError(
                    f"num_labels is {value!r}; give an integer from 1 to {MAX_NUM_LABELS}, or "
                    "id2label"
                )
        super().__setattr__(name, value)

    @property
    def projection_dim(self) -> int:
        """Width of the states and of the sentence embedding: 2n, or n for RNNencdec."""
        return (2 if self.has_attention else 1) * self.hidden_size

    def validate_fields(self) -> None:
        """Refuse sizes, rates and tokens that no model can have; `strict` calls this."""
        names = ("vocab_size", "embedding_size", "hidden_size", "attention_size", "maxout_size")
        for name in names:
            largest = MAX_VOCAB_SIZE if name == "vocab_size" else MAX_LAYER_SIZE
            if not 1 <= (size := getattr(self, name)) <= largest:
                raise ValueError(f"{name} is {size}; it must be from 1 to {largest}")
        for name in ("dropout", "label_smoothing"):
            if not 0 <= (rate := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {rate}; it must be at least 0 and below 1")
        if not (math.isfinite(self.initializer_range) and self.initializer_range >= 0):
            raise ValueError(
                f"initializer_range is {self.initializer_range}; it must be a finite number, 0 or "
                "more"
            )
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            if not 0 <= (token := getattr(self, name)) < self.vocab_size:
                raise ValueError(
                    f"{name} is {token}; it must be below vocab_size={self.vocab_size}"
                )
        if self.eos_token_id == self.pad_token_id:
            raise ValueError(
                f"eos_token_id and pad_token_id are both {self.eos_token_id}; a sentence could not "
                "end. Give them different ids"
            )

    def _refuse_misspelt_fields(self, unknown: dict[str, Any]) -> None:
        """Raise TypeError if an unknown keyword resembles a field; keep all others."""
        own = self.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
        for name in sorted(unknown.keys() - {field.name for field in fields(self)}):
            if close := difflib.get_close_matches(name, own, n=1, cutoff=0.8):
                raise TypeError(f"there is no field {name!r}; did you mean {close[0]!r}?")


__all__ = ["RNNSearchConfig"]
