"""Tasks of the sentence encoder: a new one starts from word vectors or a pretrained encoder."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import torch
from transformers import PreTrainedModel, TokenizersBackend

from ..data.splits import TaskData
from ..data.tokenizer import build_tokenizer
from ..data.word_vectors import load_word_vectors, read_words
from ..utils.loading import build_on_encoder, reraise_as_value_error
from .task import NewModel, Task


class EncoderTask(Task):
    """A task whose model arguments are `EncoderArguments`."""

    def new_model(
        self, head: type[PreTrainedModel], data: TaskData, fields: Mapping[str, Any]
    ) -> NewModel:
        """Return a new model, its tokenizer, and the share of words found in each vector file.

        `fields` of the config hold where no flag sets them.
        """
        args = self.model_args
        encoder, files = args.encoder_name_or_path, args.word_vectors or []
        if files and encoder is not None:
            raise ValueError("--encoder_name_or_path brings word vectors; leave out --word_vectors")
        if args.extend_vocabulary and not files:
            raise ValueError("--extend_vocabulary needs the words of --word_vectors")
        options = {"cache_dir": self.data_args.cache_dir, "token": self.data_args.token}
        options["member"] = args.word_vectors_member
        build: Callable[..., TokenizersBackend] = build_tokenizer
        if files and args.extend_vocabulary is not False:
            words = chain.from_iterable(read_words(path, **options) for path in files)
            build = partial(build_tokenizer, extra_words=words)
        tokenizer = self.new_tokenizer(data, build, ready=encoder)
        fields = {**fields, **args.given(args.config_fields)}
        fields |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        if encoder is not None:
            return _model_on_encoder(head, encoder, fields, self.hub_options()), tokenizer, {}
        loaded = [load_word_vectors(path, tokenizer, **options) for path in files]
        if loaded:
            vectors = torch.cat([matrix for matrix, _ in loaded], dim=1)
            width = vectors.shape[1]
            if fields.setdefault("embedding_size", width) != width:
                raise ValueError(
                    f"--embedding_size is {fields['embedding_size']}, but the vectors of "
                    f"{', '.join(files)} are {width} wide"
                )
        config_class: Any = head.config_class
        with reraise_as_value_error():
            model = head(config_class(**fields))
        if loaded:
            embeddings: Any = model.get_input_embeddings()
            embeddings.weight.data.copy_(vectors)
        found = {path: share for path, (_, share) in zip(files, loaded, strict=True)}
        return model, tokenizer, found


def _model_on_encoder(
    head: type[PreTrainedModel], name: str, fields: dict[str, Any], hub_options: dict[str, Any]
) -> Any:
    """Return a new model on a pretrained encoder; refuse words that it has no vectors for."""
    if fields.pop("encoder", "auto_model") != "auto_model":
        raise ValueError("--encoder names one to build, but --encoder_name_or_path one to load")
    words = fields.pop("vocab_size")
    model = build_on_encoder(head, name, hub_options, **fields)
    if words > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer has {words} words, but {name} knows {model.config.vocab_size}; leave "
            "out --tokenizer_name"
        )
    return model
