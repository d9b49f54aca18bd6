"""What the tasks of texts share: a new model on word vectors or on a pretrained encoder."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel, TokenizersBackend

from ..data.splits import Rows
from ..data.tokenizer import build_tokenizer
from ..data.word_vectors import load_word_vectors, read_words
from ..training.arguments import EncoderArguments, RunT, SourceT
from ..training.task import NewModel, Task, new_config, no_change_of_tokenizer
from ..utils.errors import refusal
from ..utils.loading import (
    build_on_encoder,
    check_tokenizer,
    reraise_as_value_error,
    reraise_naming,
)

NUM_UPDATES_WITH_VECTORS = 650

EncoderT = TypeVar("EncoderT", bound=EncoderArguments)


class EncoderTask(Task[SourceT, EncoderT, RunT], Generic[SourceT, EncoderT, RunT]):
    """A task whose model reads texts by the encoder that `EncoderArguments` describe."""

    def num_updates(self) -> int:
        """Return fewer updates with word vectors.

        They hold before training what other models must learn: on 6,000 rows the model was best
        when the learning rate fell to 0 within three epochs.
        """
        if self.arguments.model.word_vectors:
            return NUM_UPDATES_WITH_VECTORS
        return super().num_updates()

    def inputs(self) -> dict[str, list[str]]:
        """Return also the pretrained encoder and the files of word vectors."""
        named = super().inputs()
        model = self.arguments.model
        if model.encoder_name_or_path is not None:
            named["encoder_name_or_path"] = [model.encoder_name_or_path]
        if model.word_vectors:
            named["word_vectors"] = model.word_vectors
        return named

    def ways_to_know_words(self) -> list[str]:
        """Return also word vectors and characters, where flags do not ask for them."""
        ways = super().ways_to_know_words()
        if not self.arguments.model.word_vectors:
            ways.append("--word_vectors")
        if self.arguments.model.level != "character":
            ways.append("--level character")
        return ways

    def new_model(
        self, head: type[PreTrainedModel], rows: Rows, fields: Mapping[str, Any]
    ) -> NewModel:
        """Return a new model and its tokenizer; a flag overrides an entry of `fields`."""
        model = self.arguments.model
        self._check_word_vectors()
        encoder = model.encoder_name_or_path
        tokenizer = self.new_tokenizer(rows, self._tokenizer_builder(), ready=encoder)
        config_fields = {
            **fields,
            **model.given(model.config_fields),
            "pad_token_id": tokenizer.pad_token_id,
        }
        if encoder is not None:
            return self._model_on_encoder(head, encoder, tokenizer, config_fields)
        config_fields["vocab_size"] = len(tokenizer)
        return self._model_on_vectors(head, tokenizer, config_fields)

    def _check_word_vectors(self) -> None:
        """Raise ValueError for flags of word vectors that contradict others."""
        model = self.arguments.model
        if model.word_vectors and model.encoder_name_or_path is not None:
            raise refusal("--encoder_name_or_path brings word vectors", "leave out --word_vectors")
        for name in ("extend_vocabulary", "word_vectors_member"):
            if getattr(model, name) and not model.word_vectors:
                raise ValueError(f"--{name} needs --word_vectors")
        if model.extend_vocabulary and model.tokenizer_name is not None:
            raise no_change_of_tokenizer(["extend_vocabulary"])

    def _vector_options(self) -> dict[str, Any]:
        return {
            "cache_dir": self.arguments.data.cache_dir,
            "token": self.arguments.data.token,
            "member": self.arguments.model.word_vectors_member,
        }

    def _tokenizer_builder(self) -> Callable[..., TokenizersBackend]:
        """Return what builds a new tokenizer, with the words that have a vector."""
        model = self.arguments.model
        if not model.word_vectors or model.extend_vocabulary is False:
            return build_tokenizer
        words = chain.from_iterable(
            read_words(path, **self._vector_options()) for path in model.word_vectors
        )
        return partial(build_tokenizer, extra_words=words)

    def _model_on_encoder(
        self,
        head: type[PreTrainedModel],
        encoder: str,
        tokenizer: TokenizersBackend,
        config_fields: dict[str, Any],
    ) -> NewModel:
        """Return a model on a pretrained encoder."""
        if config_fields.pop("encoder", "auto_model") != "auto_model":
            raise refusal(
                "--encoder builds a new encoder, but --encoder_name_or_path loads one",
                "give only one of the two",
            )
        model = build_on_encoder(head, encoder, self.hub_options(), **config_fields)
        with reraise_naming(encoder, "the tokenizer for "):
            check_tokenizer(tokenizer, model.config.vocab_size)
        return NewModel(model, tokenizer)

    def _model_on_vectors(
        self,
        head: type[PreTrainedModel],
        tokenizer: TokenizersBackend,
        config_fields: dict[str, Any],
    ) -> NewModel:
        """Return a model whose word vectors are those of the files, if there are any."""
        files = self.arguments.model.word_vectors or []
        matrices: list[Tensor] = []
        found: dict[str, float] = {}
        for path in files:
            matrix, share = load_word_vectors(path, tokenizer, **self._vector_options())
            matrices.append(matrix)
            found[path] = share
        if matrices:
            width = sum(matrix.shape[1] for matrix in matrices)
            asked_width = config_fields.setdefault("embedding_size", width)
            if asked_width != width:
                raise ValueError(
                    f"--embedding_size is {asked_width}, but the vectors of {', '.join(files)} "
                    f"are {width} wide"
                )
        with reraise_as_value_error():
            model = head(new_config(head, **config_fields))
        if matrices:
            weight = model.get_input_embeddings().get_parameter("weight")
            weight.data.copy_(torch.cat(matrices, dim=1))
        return NewModel(model, tokenizer, found)
