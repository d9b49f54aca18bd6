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
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]
from transformers import AutoConfig, FeatureExtractionPipeline, pipeline
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils.hub import HF_MODULES_CACHE

LOCK_NAME = "sase_hf.lock"
# The pipeline beside a checkpoint that says how many tokens of a text were not read.
CLASSIFICATION = "pipeline_self_attentive.LimitedTextClassificationPipeline"
# Limits of a request: they bound memory and time. For a relation network both grow with the square
# of the length.
MAX_CHARACTERS, MAX_RELATED_CHARACTERS, MAX_INPUTS = 100_000, 2_000, 256


class SentenceEmbeddingPipeline(FeatureExtractionPipeline):
    """Return the embedding of each text, a list of numbers."""

    def postprocess(self, model_outputs: Any, return_tensors: Any = False, **_: Any) -> Any:
        """Return the embedding of one text."""
        return model_outputs["sentence_embedding"][0].float().tolist()


class EndpointHandler:
    """A callable for the server; `path` is the folder of the checkpoint."""

    def __init__(self, path: str = "") -> None:
        folder = path or str(Path(__file__).parent)
        # All workers of a server copy the code of the checkpoint to one cache, where one could
        # import what another has copied by half.
        lock: Any = nullcontext()
        with suppress(OSError):  # where nothing can be written, nothing is copied
            Path(HF_MODULES_CACHE).mkdir(parents=True, exist_ok=True)
            lock = WeakFileLock(Path(HF_MODULES_CACHE, LOCK_NAME))
        with lock, _reraise_naming_the_cache():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
            task: str = "text-classification"
            pipeline_class: Any = None  # that of transformers
            if config.architectures[0].endswith("Model"):  # an encoder without a head
                task, pipeline_class = "feature-extraction", SentenceEmbeddingPipeline
            else:
                with suppress(AttributeError, OSError):  # a checkpoint of older code has none
                    pipeline_class = get_class_from_dynamic_module(CLASSIFICATION, folder)
            make_pipeline: Any = pipeline  # its overloads know only stock models
            self.pipeline = make_pipeline(
                task, model=folder, pipeline_class=pipeline_class, trust_remote_code=True
            )
        is_related = getattr(config, "encoder", None) == "relation_network"
        self.max_length = MAX_RELATED_CHARACTERS if is_related else MAX_CHARACTERS

    def __call__(self, data: dict[str, Any]) -> Any:
        """Return the result of the pipeline for `inputs`, with `top_k` or `truncation`.

        A text is cut at the limit of the training, unless `truncation` is false; its answers have
        `truncated`, the number of tokens that were cut off.
        """
        if not isinstance(data, dict):
            raise ValueError(f'the request is {data!r:.80}; it must be an object with "inputs"')
        parameters: Any = data.get("parameters") or {}
        if not isinstance(parameters, dict) or not parameters.keys() <= {"top_k", "truncation"}:
            raise ValueError(f'"parameters" is {parameters!r:.80}; allowed are top_k, truncation')
        top_k = parameters.get("top_k")
        if top_k is not None and (type(top_k) is not int or top_k < 1):
            raise ValueError(f'"top_k" is {top_k!r:.80}; it must be null or an integer from 1')
        inputs: Any = data.get("inputs")
        is_list = isinstance(inputs, list)
        if is_list and len(inputs) > MAX_INPUTS:
            raise ValueError(
                f"inputs has {len(inputs):,} texts; max {MAX_INPUTS}, send several requests"
            )
        texts = {"text", "text_pair"} if self.pipeline.model.reads_pairs else {"text"}
        for number, one in enumerate(inputs if is_list else [inputs]):
            named = one if isinstance(one, dict) else {"text": one}
            if named.keys() != texts or not all(isinstance(text, str) for text in named.values()):
                form = '{"text": ..., "text_pair": ...}' if len(texts) == 2 else "a text"
                raise ValueError(f"input {number} (from 0) is {one!r:.80}; it must be {form}")
        if (length := len(json.dumps(inputs, ensure_ascii=False))) > self.max_length:
            raise ValueError(f"inputs has {length:,} characters; max {self.max_length:,}")
        inputs = [_repaired(one) for one in inputs] if is_list else _repaired(inputs)
        if inputs == []:
            return []
        return self.pipeline(inputs, **({"truncation": True} | parameters))


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


def _repaired(one: Any) -> Any:
    """Replace lone surrogates, which JSON can hold and the stock tokenizer fails on."""
    if isinstance(one, dict):
        return {name: _repaired(text) for name, text in one.items()}
    return re.sub("[\ud800-\udfff]", "\ufffd", one)
