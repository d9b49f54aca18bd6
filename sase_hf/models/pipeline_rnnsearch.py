"""The `aligned-translation` pipeline: text in; translation and alignment out."""

from collections.abc import Iterable, Mapping, Sized
from copy import copy
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GenerationConfig, Pipeline
from transformers.utils import logging

from .checked_files import check_tokenizer_of
from .checked_model import encode_read

logger = logging.get_logger(__name__)

TASK = "aligned-translation"
MAX_NEW_TOKENS = 2_000
# Keywords of `generate`, or fields of a GenerationConfig, that say how long a translation may be.
LENGTHS = ("max_length", "max_new_tokens")
UNSAID_LENGTH = GenerationConfig().max_length  # 20 in some versions, None in others
# A generation_config.json may ask for more, and for another form of the result.
ONE_TRANSLATION = {"num_return_sequences": 1, "return_dict_in_generate": False}


class AlignedTranslationPipeline(Pipeline):
    """Translate texts and show the alignment behind each.

    Takes a text, or several (with `batch_size` in batches). Of a text the model reads the first
    `config.max_tokens` tokens; the first longer text is logged as a warning. Keywords of
    `generate`, such as `num_beams` or `generation_config`, are passed on; if they say no length, a
    translation has at most `2 * source tokens + 20` tokens, and never more than 2,000. Each result
    is a plain dict:

    - `text`: the input;
    - `translation_text`: the translation;
    - `truncated`: the number of source tokens that were cut off;
    - `tokens`, `source_tokens`: the L target and T source tokens, end of sentence included;
    - `alignment`: alpha, L lists of T floats; None for a model without attention;
    - `score`: log-probability of the translation, the sum over its tokens.

    Raises:
        ValueError: If the tokenizer is of other weights, an input is not a text, or several
            translations are asked for.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_tokenizer_of(self.model, self.tokenizer)

    def __call__(self, inputs: object, *args: Any, **kwargs: Any) -> Any:
        """Return the result of one text, or the results of several in their order."""
        if isinstance(inputs, str | bytes | Mapping | Dataset) or not isinstance(inputs, Iterable):
            return super().__call__(inputs, *args, **kwargs)
        if not isinstance(inputs, Sized):
            return super().__call__((item for item in inputs), *args, **kwargs)
        if not len(inputs):
            return []  # transformers looks at the first one
        return super().__call__(list(inputs), *args, **kwargs)

    def _sanitize_parameters(
        self, **generate_kwargs: Any
    ) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
        number = _asked("num_return_sequences", generate_kwargs) or 1
        if number > 1 or _asked("return_dict_in_generate", generate_kwargs):
            raise ValueError(
                f"the {TASK} pipeline returns one translation of a text, without scores of steps; "
                "call model.generate for num_return_sequences and return_dict_in_generate"
            )
        return {}, generate_kwargs, {}

    def preprocess(self, input_: object) -> dict[str, Any]:  # type: ignore[override]
        """Tokenize one text."""
        if not isinstance(input_, str):
            raise ValueError(
                f"the input of the {TASK} pipeline must be a text; got {input_!r:.200}"
            )
        assert self.tokenizer is not None
        encoded, [num_cut] = encode_read(self.model, self.tokenizer, [input_])
        names = ("input_ids", "attention_mask")
        tensors = {name: torch.tensor([encoded[name]], dtype=torch.long) for name in names}
        return {**tensors, "shown": (input_, num_cut)}

    def _forward(self, input_tensors: dict[str, Any], **generate_kwargs: Any) -> Any:
        shown = input_tensors.pop("shown")
        limits = (2 * input_tensors["attention_mask"].sum(1) + 20).clamp(max=MAX_NEW_TOKENS)
        chosen: dict[str, Any] = dict(ONE_TRANSLATION)  # a checkpoint may ask for more
        if _says_length(generate_kwargs):
            limits = torch.full_like(limits, torch.iinfo(limits.dtype).max)
        else:
            chosen |= {"max_new_tokens": int(limits.max()), "max_length": None}
        config = generate_kwargs.get("generation_config")
        if config is None:
            generate_kwargs.update(chosen)
        else:  # which takes no keywords beside it
            generate_kwargs["generation_config"] = _changed(config, chosen)
        generate: Any = self.model.generate
        words = generate(**input_tensors, **generate_kwargs)  # (B, 1 + L)
        # The rows of `generate` follow beams; one pass over the result gives its own alignment.
        with torch.no_grad():
            outputs = self.model(
                **input_tensors, decoder_input_ids=words[:, :-1], output_attentions=True
            )
        log_probs = outputs.logits.float().log_softmax(-1)
        made: dict[str, object] = {
            "shown": shown,
            "source": input_tensors["input_ids"],
            "source_mask": input_tensors["attention_mask"],
            "words": words[:, 1:],
            "limits": limits,
            "scores": log_probs.gather(-1, words[:, 1:, None]).squeeze(-1),
        }
        if outputs.cross_attentions is not None:
            made["alignment"] = outputs.cross_attentions[0][:, 0]
        return made

    def postprocess(self, model_outputs: dict[str, Any], **_: object) -> dict[str, object]:
        """Turn the tensors of one input into the result described above."""
        assert self.tokenizer is not None
        tokenizer = self.tokenizer
        shown = model_outputs["shown"]
        text, truncated = shown[0] if isinstance(shown, list) else shown
        words = model_outputs["words"][0].tolist()
        end = self.model.config.eos_token_id
        if end in words:
            words = words[: words.index(end) + 1]
        words = words[: int(model_outputs["limits"][0])]  # a batch may let a short text go on
        length = len(words)
        real = model_outputs["source_mask"][0].bool()
        source = model_outputs["source"][0][real].tolist()
        alignment = model_outputs.get("alignment")
        if alignment is not None:
            alignment = alignment[0, :length][:, real].float().tolist()
        return {
            "text": text,
            "truncated": truncated,
            "translation_text": tokenizer.decode(words, skip_special_tokens=True),
            "tokens": tokenizer.convert_ids_to_tokens(words),
            "source_tokens": tokenizer.convert_ids_to_tokens(source),
            "alignment": alignment,
            "score": model_outputs["scores"][0, :length].sum().item(),
        }


def _asked(name: str, generate_kwargs: Mapping[str, Any]) -> Any:
    """Return what a caller asks of `generate`, by a keyword or in a GenerationConfig."""
    value = generate_kwargs.get(name)
    if value is None:
        value = getattr(generate_kwargs.get("generation_config"), name, None)
    return value


def _says_length(generate_kwargs: Mapping[str, Any]) -> bool:
    """Return whether the caller decides how long a translation may be."""
    if any(name in generate_kwargs for name in LENGTHS):
        return True
    config = generate_kwargs.get("generation_config")
    lengths = [getattr(config, name, None) for name in LENGTHS]
    return lengths != [None, None] and lengths != [UNSAID_LENGTH, None]


def _changed(config: GenerationConfig, fields: Mapping[str, Any]) -> GenerationConfig:
    changed = copy(config)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
