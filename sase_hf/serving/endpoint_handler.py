"""Serve the checkpoint beside this file on Hugging Face Inference Endpoints.

    {"inputs": "The room was small, but not bad."}
    {"inputs": {"text": "The cook thanked the guest.", "text_pair": "The guest thanked the cook."}}
    {"inputs": ["...", "..."], "parameters": {"top_k": null}}

`scripts/push.py --handler` puts a copy of this file, called handler.py, beside a model; it needs
torch and transformers only. The server answers any exception with status 400 and its message.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]
from torch import Tensor
from transformers import AutoConfig, FeatureExtractionPipeline, pipeline
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils.hub import HF_MODULES_CACHE

LOCK_NAME = "sase_hf.lock"
# The pipeline beside a checkpoint that says how many tokens of a text were not read.
CLASSIFICATION = "pipeline_self_attentive.LimitedTextClassificationPipeline"
# Limits of a request: they bound memory and time. For a relation network both grow with the square
# of the length.
MAX_INPUTS = 256
MAX_CHARACTERS = 100_000
MAX_RELATED_CHARACTERS = 2_000


class SentenceEmbeddingPipeline(FeatureExtractionPipeline):
    """Return the embedding of each text, a list of numbers."""

    def postprocess(
        self, model_outputs: dict[str, Tensor], return_tensors: object = False, **_: object
    ) -> list[float]:
        """Return the embedding of one text."""
        embedding: list[float] = model_outputs["sentence_embedding"][0].float().tolist()
        return embedding


class EndpointHandler:
    """A callable for the server; `path` is the folder of the checkpoint."""

    def __init__(self, path: str = "") -> None:
        folder = path or str(Path(__file__).parent)
        with _lock_of_the_cache(), _reraise_naming_the_cache():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
            is_encoder = config.architectures[0].endswith("Model")  # without a head
            pipeline_class: type = SentenceEmbeddingPipeline
            if not is_encoder:
                pipeline_class = get_class_from_dynamic_module(CLASSIFICATION, folder)
            self.pipeline = pipeline(
                "feature-extraction" if is_encoder else "text-classification",
                model=folder,
                pipeline_class=pipeline_class,
                trust_remote_code=True,
            )
        is_related = getattr(config, "encoder", None) == "relation_network"
        self.max_length = MAX_RELATED_CHARACTERS if is_related else MAX_CHARACTERS

    def __call__(self, data: dict[str, Any]) -> object:
        """Return the result of the pipeline for `inputs`, with `top_k` or `truncation`.

        A text is cut at the limit of the training, unless `truncation` is false; its answers have
        `truncated`, the number of tokens that were cut off.
        """
        if not isinstance(data, dict):
            raise ValueError(f'the request is {data!r:.80}; it must be an object with "inputs"')
        parameters = data.get("parameters") or {}
        _check_parameters(parameters)
        inputs = data.get("inputs")
        self._check_inputs(inputs)
        if inputs == []:
            return []
        return self.pipeline(_repaired(inputs), **{"truncation": True, **parameters})

    def _check_inputs(self, inputs: object) -> None:
        """Raise ValueError unless these are texts, or pairs for a model of pairs, and not too many.

        One input comes alone or in a list. The limits are those of this file.
        """
        several = inputs if isinstance(inputs, list) else [inputs]
        if len(several) > MAX_INPUTS:
            raise ValueError(
                f"inputs has {len(several):,} texts; max {MAX_INPUTS}, send several requests"
            )
        fields = {"text"}
        form = "a text"
        if self.pipeline.model.reads_pairs:
            fields = {"text", "text_pair"}
            form = '{"text": ..., "text_pair": ...}'
        for number, value in enumerate(several):
            texts = value if isinstance(value, dict) else {"text": value}
            if texts.keys() != fields or not all(isinstance(text, str) for text in texts.values()):
                raise ValueError(f"input {number} (from 0) is {value!r:.80}; it must be {form}")
        length = len(json.dumps(inputs, ensure_ascii=False))
        if length > self.max_length:
            raise ValueError(f"inputs has {length:,} characters; max {self.max_length:,}")


def _check_parameters(parameters: object) -> None:
    """Raise ValueError for parameters that no request may have."""
    if not isinstance(parameters, dict) or not parameters.keys() <= {"top_k", "truncation"}:
        raise ValueError(f'"parameters" is {parameters!r:.80}; allowed are top_k, truncation')
    top_k = parameters.get("top_k")
    is_count = type(top_k) is int and top_k >= 1  # True is an int, too
    if top_k is not None and not is_count:
        raise ValueError(f'"top_k" is {top_k!r:.80}; it must be null or an integer from 1')


def _lock_of_the_cache() -> AbstractContextManager[object]:
    """Return a lock on the folder to which transformers copies the code of a checkpoint.

    All workers of a server copy it there, where one could import what another has copied by half.
    """
    try:
        Path(HF_MODULES_CACHE).mkdir(parents=True, exist_ok=True)
    except OSError:  # where nothing can be written, nothing is copied
        return nullcontext()
    lock: AbstractContextManager[object] = WeakFileLock(Path(HF_MODULES_CACHE, LOCK_NAME))
    return lock


@contextmanager
def _reraise_naming_the_cache() -> Iterator[None]:
    """Name the folder to which transformers copies code, if it cannot be written."""
    try:
        yield
    except OSError as reason:
        if os.access(HF_MODULES_CACHE, os.W_OK):
            raise
        raise OSError(
            f"the code of the checkpoint cannot be copied to {HF_MODULES_CACHE}: {reason}; set "
            "HF_MODULES_CACHE to a folder that can be written"
        ) from reason


def _repaired(inputs: Any) -> Any:
    """Replace lone surrogates, which JSON can hold and the stock tokenizer fails on."""
    if isinstance(inputs, list):
        return [_repaired(text) for text in inputs]
    if isinstance(inputs, dict):
        return {name: _repaired(text) for name, text in inputs.items()}
    return re.sub("[\ud800-\udfff]", "\ufffd", inputs)
