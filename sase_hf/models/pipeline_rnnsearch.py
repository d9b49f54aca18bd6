"""The `aligned-translation` pipeline: text in; translation and alignment out."""

from typing import Any

import torch
from transformers import Pipeline

from .checkpoint import encode_read

TASK = "aligned-translation"
MAX_NEW_TOKENS = 2_000
# Keywords of `generate`, or fields of a GenerationConfig, that say how long a translation may be.
LENGTHS = {"max_length", "max_new_tokens"}
# A generation_config.json may ask for more, and for another form of the result.
ONE_TRANSLATION = {"num_return_sequences": 1, "return_dict_in_generate": False}


class AlignedTranslationPipeline(Pipeline):
    """Translate texts and show the alignment behind each.

    Takes a text, or several in any form that pipelines of transformers take (with `batch_size` in
    batches). Of a text the model reads the first `config.max_tokens` tokens; the first longer text
    is logged as a warning. Keywords of `generate`, such as `num_beams` or `generation_config`, are
    passed on, but each text has one translation; if they say no length, a translation has at most
    `2 * source tokens + 20` tokens, of the longest text of a batch, and never more than
    2,000. Each result is a plain dict:

    - `text`: the input;
    - `translation_text`: the translation;
    - `truncated`: the number of source tokens that were cut off;
    - `tokens`, `source_tokens`: the L target and T source tokens, end of sentence included;
    - `alignment`: alpha, L lists of T floats; None for a model without attention;
    - `score`: log-probability of the translation, the sum over its tokens.

    Raises:
        ValueError: If keywords ask for several translations.
    """

    _pipeline_calls_generate = True
    tokenizer: Any

    def _sanitize_parameters(self, **generate_kwargs: Any) -> tuple[dict[str, object], ...]:
        if taken := ONE_TRANSLATION.keys() & generate_kwargs:
            raise ValueError(
                f"the {TASK} pipeline returns one translation of a text, without scores of steps; "
                f"call model.generate for {', '.join(sorted(taken))}"
            )
        return {}, generate_kwargs, {}

    def preprocess(self, input_: str, **_: object) -> dict[str, Any]:
        """Tokenize one text."""
        encoded, [num_cut] = encode_read(self.model, self.tokenizer, [input_])
        names = ("input_ids", "attention_mask")
        tensors = {name: torch.tensor([encoded[name]], dtype=torch.long) for name in names}
        return {**tensors, "shown": [input_, num_cut]}

    def _forward(self, input_tensors: dict[str, Any], **generate_kwargs: Any) -> Any:
        shown = input_tensors.pop("shown")
        chosen: dict[str, Any] = dict(ONE_TRANSLATION)
        asked = {**self._generate_kwargs, **generate_kwargs}
        if "generation_config" in asked:
            asked |= asked["generation_config"].to_diff_dict()
        if not LENGTHS & asked.keys():
            longest = int(input_tensors["attention_mask"].sum(1).max())
            # A training sets `max_length` for its own translations.
            chosen |= {"max_new_tokens": min(2 * longest + 20, MAX_NEW_TOKENS), "max_length": None}
        options = self._prepare_generate_kwargs(generate_kwargs, **chosen)
        generate: Any = self.model.generate
        words = generate(**input_tensors, **options)  # (B, 1 + L)
        # The rows of `generate` follow beams; one pass over the result gives its own alignment.
        with torch.no_grad():
            outputs = self.model(
                **input_tensors, decoder_input_ids=words[:, :-1], output_attentions=True
            )
        log_probs = outputs.logits.float().log_softmax(-1)
        made: dict[str, object] = {
            **input_tensors,
            "shown": shown,
            "words": words[:, 1:],
            "scores": log_probs.gather(-1, words[:, 1:, None]).squeeze(-1),
        }
        if outputs.cross_attentions is not None:
            made["alignment"] = outputs.cross_attentions[0][:, 0]
        return made

    def postprocess(self, model_outputs: dict[str, Any], **_: object) -> dict[str, object]:
        """Turn the tensors of one input into the result described above."""
        tokenizer = self.tokenizer
        text, truncated = model_outputs["shown"]
        words = model_outputs["words"][0].tolist()
        end = self.model.config.eos_token_id
        if end in words:
            words = words[: words.index(end) + 1]
        length = len(words)
        real = model_outputs["attention_mask"][0].bool()
        source = model_outputs["input_ids"][0][real].tolist()
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
