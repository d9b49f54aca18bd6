"""Serve the checkpoint beside this file on Hugging Face Inference Endpoints.

    {"inputs": "The room was small, but not bad."}
    {"inputs": {"text": "The cook thanked the guest.", "text_pair": "The guest thanked the cook."}}
    {"inputs": ["...", "..."], "parameters": {"top_k": null}}

`scripts/push.py --handler` puts a copy of this file, called handler.py, beside a model; it needs
torch and transformers only. The server answers any exception with status 400 and its message.
"""

import re
from pathlib import Path
from typing import Any

from transformers import AutoConfig, FeatureExtractionPipeline, pipeline

# Limits of a request. A token is at least one character, so they bound its memory and time.
MAX_INPUTS = 1_000
MAX_CHARACTERS = 100_000
# Of one input of a relation network, whose time grows with the square of the length.
MAX_RELATED_CHARACTERS = 2_000
PARAMETERS = ("top_k", "truncation")

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can hold one, the tokenizer cannot


class SentenceEmbeddingPipeline(FeatureExtractionPipeline):
    """Return the embedding of each text, a list of numbers."""

    def postprocess(self, model_outputs: Any, return_tensors: Any = False, **_: Any) -> Any:
        """Take the embedding out of the outputs of one text."""
        return model_outputs["sentence_embedding"][0].float().tolist()


class EndpointHandler:
    """What the server calls.

    Args:
        path: The folder of the checkpoint; by default that of this file.
    """

    def __init__(self, path: str = "") -> None:
        folder = path or str(Path(__file__).parent)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        task, pipeline_class = "text-classification", None
        if config.architectures[0].endswith("Model"):  # an encoder without a head
            task, pipeline_class = "feature-extraction", SentenceEmbeddingPipeline
        make_pipeline: Any = pipeline  # its overloads know only stock models
        self.pipeline = make_pipeline(
            task, model=folder, pipeline_class=pipeline_class, trust_remote_code=True
        )
        is_related = getattr(config, "encoder", None) == "relation_network"
        self.max_length = MAX_RELATED_CHARACTERS if is_related else MAX_CHARACTERS
        self.allowed_texts = {1} if pipeline_class else {1, 2}
        if self.pipeline.model.reads_pairs:
            self.allowed_texts = {2}

    def __call__(self, data: dict[str, Any]) -> Any:
        """Answer a request.

        Args:
            data: `inputs`: a text, a pair `{"text": ..., "text_pair": ...}`, or a list of either;
                and optionally `parameters`: `truncation`, true to cut texts at the tokenizer's
                limit, and of a model with labels `top_k`, the number of labels of a result, null
                for all.

        Returns:
            What the `text-classification` pipeline returns; for an encoder an embedding, or a list
            of embeddings for a list.

        Raises:
            ValueError: If the request is malformed or too large.
        """
        if not isinstance(data, dict) or "inputs" not in data:
            raise ValueError('the request has no "inputs"; send a text, a pair, or a list of them')
        parameters = data.get("parameters") or {}
        if not isinstance(parameters, dict) or not parameters.keys() <= {*PARAMETERS}:
            raise ValueError(
                f'"parameters" is {parameters!r:.80}; allowed are {", ".join(PARAMETERS)}'
            )
        is_list = isinstance(data["inputs"], list)
        inputs = data["inputs"] if is_list else [data["inputs"]]
        if len(inputs) > MAX_INPUTS:
            raise ValueError(f"the request has {len(inputs):,} inputs; max {MAX_INPUTS:,}")
        examples = [self._example(number, one) for number, one in enumerate(inputs)]
        lengths = [
            len(one) if isinstance(one, str) else sum(map(len, one.values())) for one in examples
        ]
        if not examples:
            return []
        if max(lengths) > self.max_length:
            raise ValueError(f"an input has {max(lengths):,} characters; max {self.max_length:,}")
        if sum(lengths) > MAX_CHARACTERS:
            raise ValueError(f"the request has {sum(lengths):,} characters; max {MAX_CHARACTERS:,}")
        # Padded to the longest text, a batch holds no more characters than a request may.
        batch_size = MAX_CHARACTERS // max(*lengths, 1)
        return self.pipeline(
            examples if is_list else examples[0], batch_size=batch_size, **parameters
        )

    def _example(self, number: int, one: Any) -> str | dict[str, str]:
        """Return an input as the pipeline takes it."""
        is_named = isinstance(one, dict) and one.keys() in ({"text"}, {"text", "text_pair"})
        named = one if is_named else {"text": one}
        if not all(isinstance(text, str) for text in named.values()):
            raise ValueError(
                f"input {number} (counted from 0) is {one!r:.80}; it must be a text, or a pair "
                '{"text": ..., "text_pair": ...}'
            )
        if len(named) not in self.allowed_texts:
            raise ValueError(
                f"input {number} (counted from 0) has {len(named)} text(s), and this model reads "
                f'{max(self.allowed_texts)}; a pair is {{"text": ..., "text_pair": ...}}'
            )
        named = {
            name: _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
            for name, text in named.items()
        }
        return named if len(named) == 2 else named["text"]
