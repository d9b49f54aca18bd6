"""A classifier as one HTML file, which reads what is typed into it: no server and no network.

The page computes what the `self-attention` pipeline computes, in the JavaScript of the templates
`live_model.js` and `live_page.js`; its policy lets the browser run this script and nothing else,
and load nothing.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..data.labels import MULTI_LABEL, REGRESSION
from ..data.tokenizer import built_settings, truncation
from ..hub.card import card_facts
from ..utils.loading import load_checkpoint, name_checkpoints
from ..utils.text import INVISIBLE, visible
from ..visualization import attended_text, page
from ..visualization.rendering import render
from .examples import EXAMPLES, MAX_CHARACTERS, PAIR_EXAMPLES
from .onnx_export import random_batches, relative_difference

PART_SIZE = 3 * 2**18  # bytes, decoded at a time
SIDES, VECTORS = ("forward", "backward"), "encoder.embeddings.weight"
# What the browser reads of the config.
ENCODER_FIELDS = ("hidden_size", "num_lstm_layers", "lstm_shortcuts")
POOLING_FIELDS = ("attention_function", "normalize_states", "num_hops")
PAGE_LIMITS = ("MAX_LABELS", "TOP_WORDS", "MIN_TOP_WEIGHT")
TEXT_LIMITS = ("MIN_ADDED", "FULL_STRENGTH", "MIN_RATIO", "EVEN_ENTROPY", "READS_EVENLY")
MAX_DRAWN = 100_000  # words times hops, beyond which no single hop can be chosen


def live_page(
    checkpoint: str,
    *,
    float32: bool = False,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> tuple[str, float]:
    """Return the page of a classifier, and how far rounding moves the logits of random texts.

    The difference is the largest, as a share of the largest logit. The checkpoint is a classifier
    of texts or pairs with a BiLSTM, a pooling with attention and a tokenizer of `build_tokenizer`,
    or ValueError is raised. `float32` keeps all weights exact; by default the word vectors are int8
    with a scale for each word, and all other weights float16. The title is by default the name of
    the checkpoint; `about` has entries that replace those of the card, such as `license`.
    """
    model, tokenizer = load_checkpoint(checkpoint)
    settings = built_settings(tokenizer)
    if fault := _fault(model, settings):
        way_out = "export it to ONNX (name a folder instead of an .html file), or serve it with "
        way_out += "scripts/app.py"
        if model.config.is_encoder_decoder:
            way_out = "scripts/predict.py translates with it"
        raise ValueError(f"{checkpoint} {fault}, which a page cannot compute; {way_out}")
    vocabulary, config = tokenizer.get_vocab(), model.config
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    exact, model = model, model if float32 else rounded(model)
    kind = {REGRESSION: "values", MULTI_LABEL: "shares"}.get(config.problem_type, "probabilities")
    width = model.matching.row_width if model.reads_pairs else config.hidden_size
    groups = [("rows", width, 1), ("columns", 1, width)]
    content, tensors = _packed(_tensors(model, len(words), kind, int8=not float32))
    values: dict[str, Any] = {
        **{field: getattr(config, field) for field in ENCODER_FIELDS + POOLING_FIELDS},
        "matching": config.matching if model.reads_pairs else "none",
        "row_width": width,
        # Matrices of hidden units: the step in M from one to the next, and between its inputs.
        "groups": [("hidden", 0, 1)] if config.classifier == "mlp" else groups,
        "kind": kind,
        "labels": [visible(label) for _, label in sorted(config.id2label.items())],
        "tokenizer": {**(settings or {}), "unknown": tokenizer.unk_token_id},
        "words": words,
        "tensors": tensors,
        "examples": PAIR_EXAMPLES if model.reads_pairs else EXAMPLES,
        # Python's pattern in JavaScript's spelling, without its comments.
        "invisible": re.sub(
            r"\\U0*(\w+)", r"\\u{\1}", re.sub(r"(?m)^\s*#.*$|\s|P(?=<)", "", INVISIBLE.pattern)
        ),
        "max_characters": MAX_CHARACTERS,
        "max_tokens": truncation(tokenizer, None).get("max_length"),  # as in training; or None
        "cuts_left": tokenizer.truncation_side == "left",
        "max_drawn": MAX_DRAWN,
        **{name.lower(): getattr(page, name) for name in PAGE_LIMITS},
        **{name.lower(): getattr(attended_text, name) for name in TEXT_LIMITS},
    }
    title = title or next(iter(name_checkpoints([checkpoint])))
    weights_end, content = len(content), content + json.dumps(values).encode()
    starts = range(0, len(content), PART_SIZE)
    rendered = render(
        "live.html",
        **{**values, "title": title, "about": card_facts(checkpoint, about)},
        layout="page.html",
        full=1.0,
        float32=float32,
        scale_ends=attended_text.scale_ends([]),
        num_views=config.num_hops + 1,
        weights_end=weights_end,
        num_bytes=len(content),
        checksum=zlib.adler32(content),
        parts=[base64.b64encode(content[k : k + PART_SIZE]).decode() for k in starts],
    )
    for tag in ("script", "style"):  # the policy stands before all that others wrote
        element = rendered.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()
        rendered = rendered.replace(f"hash-of-{tag}", f"'sha256-{digest}'", 1)
    with torch.inference_mode():
        difference = max(
            relative_difference(*(one(*batch).logits.numpy() for one in (model, exact)))
            for batch in random_batches(len(words))
        )
    return rendered, difference


def _fault(model: Any, settings: Mapping[str, Any] | None) -> str | None:
    """Return what a checkpoint has that the script of the page cannot compute; None if nothing."""
    config = model.config
    if not hasattr(model, "classify"):
        return f"is a {type(model).__name__}"
    if config.encoder != "bilstm":
        return f"has encoder={config.encoder!r}"
    if not config.has_attention:
        return f"has pooling={config.pooling!r}"
    return "has a tokenizer that build_tokenizer did not make" if settings is None else None


def rounded(model: Any) -> Any:
    """Return a copy of a model with the rounded weights of a page.

    The vector of a word is int8 times a scale; other matrices are float16, but for those of the
    last layer and those beyond the range of float16; biases are exact.
    """
    copy = deepcopy(model)
    for name, weight in copy.state_dict().items():
        half = weight.half()
        if name == VECTORS:
            scales = _scales(weight)
            weight.copy_((weight / scales).round() * scales)
        elif weight.ndim > 1 and not name.startswith("classifier.output"):
            weight.copy_(torch.where(half.isfinite(), half.float(), weight))
    return copy


def _scales(vectors: Tensor) -> Tensor:
    """Return the scale of each word vector in int8, shape (words, 1)."""
    return (vectors.abs().amax(1, keepdim=True) / 127).clamp(min=1e-30)


def _tensors(model: Any, num_words: int, kind: str, *, int8: bool) -> dict[str, Tensor]:
    """Return the weights of a page by the names of `live_model.js`: lists of matrices or vectors.

    A matrix is inputs x outputs. The last layer has the units of the targets of a regression and,
    for one label per text, logits of mean 0.
    """
    state, config, head = model.state_dict(), model.config, model.classifier
    tensors, pooling = {"vectors": state[VECTORS][:num_words]}, model.base_model.pooling
    if int8:
        tensors["scales"] = scales = _scales(tensors["vectors"])
        tensors["vectors"] = (tensors["vectors"] / scales).round().to(torch.int8)
    for run, (layer, side) in enumerate(product(range(config.num_lstm_layers), SIDES)):
        prefix = f"encoder.token_encoder.layers.{layer}.{side}_lstm."
        weights = [state[f"{prefix}weight_{part}_l0"] for part in ("ih", "hh")]
        tensors[f"lstm.{run}"] = torch.cat(weights, 1).T[None]
        bias = state[f"{prefix}bias_ih_l0"] + state[f"{prefix}bias_hh_l0"]
        tensors[f"lstm.{run}.bias"] = bias[None]
    tensors["pooling.hidden"] = pooling.projection.weight.T[None]
    tensors["pooling.output"] = pooling.hops.weight.T[None]
    if config.classifier == "mlp":
        tensors["hidden"] = head.hidden.weight.T[None]
    else:
        tensors |= {"rows": head.row_weight, "columns": head.column_weight}
    scale = torch.tensor(config.target_deviation or [1.0])
    output, bias = head.output.weight.T * scale, head.output.bias * scale
    bias = bias + torch.tensor(config.target_mean or [0.0])
    if kind == "probabilities":
        output, bias = output - output.mean(1, keepdim=True), bias - bias.mean()
    tensors |= {"output": output[None], "output.bias": bias[None], "hidden.bias": head.bias()[None]}
    if model.reads_pairs and config.matching == "gated":
        gates = model.matching
        tensors["matching"] = torch.cat([gates.premise_weight, gates.hypothesis_weight])
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[tuple[str, str, int, int, int]]]:
    """Return tensors as bytes; and the name, type, first byte, length and count of each list.

    What float16 holds exactly is float16.
    """
    content, places = b"", []
    for name, tensor in tensors.items():
        half = tensor.half()
        is_half = tensor.is_floating_point() and half.float().equal(tensor)
        array = (half if is_half else tensor).contiguous().numpy()
        places.append((name, array.dtype.name, len(content), array.size, len(array)))
        content += array.astype(array.dtype.newbyteorder("<")).tobytes()
        content += bytes(-len(content) % 4)  # where a float32 may begin
    return content, places
