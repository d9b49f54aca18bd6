"""Serve the checkpoint beside this file on Hugging Face Inference Endpoints.

    {"inputs": "The room was small, but not bad."}
    {"inputs": {"text": "The cook thanked the guest.", "text_pair": "The guest thanked the cook."}}
    {"inputs": ["...", "..."], "parameters": {"top_k": null}}

`scripts/push.py --handler` puts a copy of this file, called handler.py, beside a model; it needs
torch and transformers and nothing else. A request that cannot be answered raises ValueError: of any
exception, the server of huggingface-inference-toolkit (`predict` in webservice_starlette.py) makes
status 400 with the message as `{"error": ...}`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

# Of one request. A token is a character or more, so this bounds the memory that a request takes.
MAX_TEXTS = 1_000
MAX_CHARACTERS = 100_000
# Of one text that a relation network reads, whose time grows with the square of the length.
MAX_RELATED_CHARACTERS = 2_000

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can hold one, a text cannot


class EndpointHandler:
    """What the server calls.

    Args:
        path: The folder of the checkpoint; by default that of this file.
    """

    def __init__(self, path: str = "") -> None:
        folder = path or str(Path(__file__).parent)
        # The code beside the model, which is as trusted as this file.
        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        is_relation_network = config.encoder == "relation_network"
        self.longest = MAX_RELATED_CHARACTERS if is_relation_network else MAX_CHARACTERS
        is_encoder = config.architectures == ["SelfAttentiveModel"]
        auto_class: Any = AutoModel if is_encoder else AutoModelForSequenceClassification
        model = auto_class.from_pretrained(folder, trust_remote_code=True).eval()
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        self.classify: Any = None
        if not is_encoder:
            make_pipeline: Any = pipeline  # its overloads know only stock models
            self.classify = make_pipeline(
                "text-classification",
                model=self.model,
                tokenizer=self.tokenizer,
                device=self.model.device,
            )

    def __call__(self, data: dict[str, Any]) -> list[Any] | dict[str, Any]:
        """Answer a request.

        Args:
            data: `inputs`: a text, a pair `{"text": ..., "text_pair": ...}`, or a list of either;
                and perhaps `parameters`: `truncation`, true to cut texts at the tokenizer's limit,
                and of a model with labels `top_k`, how many of them a result lists, null for all.

        Returns:
            What the `text-classification` pipeline gives. From an encoder alone an embedding, a
            list of numbers, or a list of such for a list.

        Raises:
            ValueError: If the request is malformed, or too large.
        """
        if not isinstance(data, dict) or "inputs" not in data:
            raise ValueError('the request has no "inputs"; give a text, a pair, or a list of them')
        inputs, parameters = data["inputs"], data.get("parameters") or {}
        examples = inputs if isinstance(inputs, list) else [inputs]
        self._check_inputs(examples)
        self._check_parameters(parameters)
        examples = [_whole(one) for one in examples]
        if not isinstance(inputs, list):
            if self.classify is None:
                return self._embed(examples, **parameters)[0]
            return self.classify(examples[0], **parameters)
        answers: list[Any] = [None] * len(examples)
        for rows in _batches([_length(one) for one in examples]):
            batch = [examples[row] for row in rows]
            if self.classify is None:
                found = self._embed(batch, **parameters)
            else:
                found = self.classify(batch, batch_size=len(batch), **parameters)
            for row, answer in zip(rows, found, strict=True):
                answers[row] = answer
        return answers

    def _embed(self, texts: list[str], truncation: bool = False) -> list[list[float]]:
        """Return the embeddings of texts."""
        batch = self.tokenizer(texts, padding=True, truncation=truncation, return_tensors="pt")
        with torch.inference_mode():
            outputs = self.model(**batch.to(self.model.device))
        embeddings: list[list[float]] = outputs.sentence_embedding.float().tolist()
        return embeddings

    def _check_inputs(self, examples: list[Any]) -> None:
        """Raise ValueError if an input is of the wrong kind, or all are too many or too long."""
        if len(examples) > MAX_TEXTS:
            raise ValueError(
                f"the request has {len(examples):,} inputs, and may have {MAX_TEXTS:,}; send "
                "several requests"
            )
        for number, one in enumerate(examples):
            is_pair = isinstance(one, dict) and one.keys() == {"text", "text_pair"}
            is_named = is_pair or (isinstance(one, dict) and one.keys() == {"text"})
            texts = list(one.values()) if is_named else [one]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(
                    f"input {number} (counted from 0) is {one!r:.80}; it must be a text, or a pair "
                    '{"text": ..., "text_pair": ...}'
                )
            if is_pair and self.classify is None:
                raise ValueError(
                    f"input {number} (counted from 0) is a pair, and this model embeds one text; "
                    "send its texts as two inputs"
                )
            if not is_pair and self.model.reads_pairs:
                raise ValueError(
                    f"input {number} (counted from 0) is one text, and this model compares two; "
                    'send {"text": premise, "text_pair": hypothesis}'
                )
            if max(map(len, texts)) > self.longest:
                raise ValueError(
                    f"input {number} (counted from 0) has a text of {max(map(len, texts)):,} "
                    f"characters, and it may have {self.longest:,}; send shorter texts"
                )
        characters = sum(map(_length, examples))
        if characters > MAX_CHARACTERS:
            raise ValueError(
                f"the request has {characters:,} characters, and may have {MAX_CHARACTERS:,}; "
                "send several requests, or shorter texts"
            )

    def _check_parameters(self, parameters: Any) -> None:
        """Raise ValueError if a parameter is not known, or has no such value."""
        known = {"truncation"} if self.classify is None else {"top_k", "truncation"}
        if not isinstance(parameters, dict) or not parameters.keys() <= known:
            raise ValueError(
                f'"parameters" is {parameters!r:.80}; it may hold {" and ".join(sorted(known))}'
            )
        if not isinstance(parameters.get("truncation", False), bool):
            raise ValueError(f"truncation is {parameters['truncation']!r:.80}; send true or false")
        top_k = parameters.get("top_k")
        if top_k is not None and (type(top_k) is not int or top_k < 1):
            raise ValueError(
                f"top_k is {top_k!r:.80}; send a number from 1, or null for all labels"
            )


def _whole(one: str | dict[str, str]) -> str | dict[str, str]:
    """Return a text or a pair without what is no character; a text that is named, alone."""
    if isinstance(one, dict) and len(one) == 1:
        one = one["text"]
    if isinstance(one, dict):
        return {
            name: _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", t) for name, t in one.items()
        }
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", one)


def _length(one: str | dict[str, str]) -> int:
    """Return how many characters a text or a pair has."""
    return len(one) if isinstance(one, str) else sum(map(len, one.values()))


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Yield the numbers of the inputs that are read together, the longest first.

    Padded, each batch holds no more characters than a request may.
    """
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while rows:
        size = MAX_CHARACTERS // max(lengths[rows[0]], 1)
        yield rows[:size]
        rows = rows[size:]
