"""A classifier as one HTML file, which reads what is typed into it: no server and no network.

The page computes what the `self-attention` pipeline computes, in the JavaScript of the templates
`live_model.js` and `live_page.js`; its policy lets the browser run this script and nothing else,
and load nothing.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..data.labels import MULTI_LABEL, REGRESSION
from ..data.tokenizer import built_settings
from ..hub.card import card_facts
from ..utils.loading import load_checkpoint, name_checkpoints
from ..utils.text import INVISIBLE, visible
from ..visualization import attended_text, page
from ..visualization.rendering import render
from .examples import EXAMPLES, MAX_CHARACTERS, PAIR_EXAMPLES
from .onnx_export import random_batches, relative_difference

PART_SIZE = 3 * 2**18  # bytes, decoded at a time
DELAY, MOMENT = 120, 12  # milliseconds: from a key to the reading, and of reading without a pause
VECTORS = "encoder.embeddings.weight"
# What the browser reads of the config.
FIELDS: tuple[str, ...] = (
    "num_lstm_layers",
    "lstm_shortcuts",
    "normalize_states",
    "attention_function",
    "pooling",
)
FIELDS += ("num_hops", "hidden_size")
# What the page shows as the package's pages do.
SHOWN = (
    (page, ("STRIP_CELLS", "TOP_WORDS", "MIN_TOP_WEIGHT", "MAX_LABELS")),
    (attended_text, ("FULL_STRENGTH", "EVEN_ENTROPY", "READS_EVENLY", "MIN_ADDED", "MIN_RATIO")),
)
UNSHOWN = ("loss", "penalty")  # say nothing to readers of a page
ROUNDED = "rounded (int8 word vectors, float16 matrices)"
LIMITS = (
    "Unknown words are all read as the same word. Characters that Unicode assigned after version "
    "13, and rare orders of several marks on a letter, can be read in another way than in Python."
)


def live_page(checkpoint: str, *, float32: bool = False) -> tuple[str, dict[str, float]]:
    """Return the page of a classifier, and a report.

    The report has the `bytes` of the page, those of its `weights`, and as `largest_difference` how
    far rounding moves the logits of random texts, as a share of the largest.

    Args:
        checkpoint: A folder or a name on the Hub: a classifier of texts or pairs with a BiLSTM,
            a pooling with attention and a tokenizer of `build_tokenizer`.
        float32: Keep all weights exact; by default the word vectors are int8 with a scale for each
            word, and all other weights float16.

    Raises ValueError for another checkpoint.
    """
    model, tokenizer = load_checkpoint(checkpoint)
    settings = built_settings(tokenizer)
    if fault := _fault(model, settings):
        raise ValueError(
            f"{checkpoint} {fault}, which a page cannot compute; export it to ONNX (name a folder "
            "instead of an .html file), or serve it with scripts/app.py"
        )
    vocabulary, config = tokenizer.get_vocab(), model.config
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    exact, model = model, model if float32 else rounded(model)
    content, tensors = _packed(_tensors(model, len(words), int8=not float32))
    title = next(iter(name_checkpoints([checkpoint])))
    values: dict[str, Any] = {
        **{field: getattr(config, field) for field in FIELDS},
        **{name.lower(): getattr(module, name) for module, names in SHOWN for name in names},
        "matching": config.matching if model.reads_pairs else "none",
        "row_width": model.matching.row_width if model.reads_pairs else config.hidden_size,
        "kind": _kind(config),
        "labels": [visible(label) for _, label in sorted(config.id2label.items())],
        "tokenizer": {**(settings or {}), "unknown": tokenizer.unk_token_id},
        "words": words,
        "tensors": tensors,
        "num_bytes": len(content),
        "examples": PAIR_EXAMPLES if model.reads_pairs else EXAMPLES,
        # Python's pattern in JavaScript's spelling.
        "invisible": re.sub(r"\\U0*(\w+)", r"\\u{\1}", re.sub(r"\s|P(?=<)", "", INVISIBLE.pattern)),
        "max_characters": MAX_CHARACTERS,
        "delay": DELAY,
        "moment": MOMENT,
    }
    about = _about(checkpoint, model, len(words), "exact" if float32 else ROUNDED)
    shown = {**values, "title": title, "num_views": config.num_hops + 1, "about": [*about]}
    shown |= {"layout": "page.html", "full": 1.0, "scale_ends": attended_text.scale_ends([])}
    shown["model"] = json.dumps(values, ensure_ascii=False).replace("<", r"\u003c")
    # The hashes are those of a page without weights, whose script and style are the same.
    bare = render("live.html", **shown, parts=[], hashes={"script": "", "style": ""})
    shown["hashes"] = {tag: _hash(bare, tag) for tag in ("script", "style")}
    starts = range(0, len(content), PART_SIZE)
    parts = [base64.b64encode(content[k : k + PART_SIZE]).decode() for k in starts]
    source = render("live.html", **shown, parts=parts)
    report = {"bytes": len(source.encode()), "weights": len(content)}
    return source, report | {"largest_difference": _difference(model, exact, len(words))}


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


def _tensors(model: Any, num_words: int, *, int8: bool) -> dict[str, Tensor]:
    """Return the weights of a page by the names of `live_model.js`: vectors, matrices, biases.

    A matrix is inputs x outputs. The last layer has the units of the targets of a regression and,
    for one label per text, logits of mean 0.
    """
    state, config, head = model.state_dict(), model.config, model.classifier
    vectors, pooling = state[VECTORS][:num_words], model.base_model.pooling
    tensors: dict[str, Tensor] = {"vectors": vectors}
    if int8:
        scales = _scales(vectors)
        tensors = {"vectors": (vectors / scales).round().to(torch.int8), "scales": scales}
    for layer, side in product(range(config.num_lstm_layers), (0, 1)):
        prefix = f"encoder.token_encoder.layers.{layer}.{('forward', 'backward')[side]}_lstm."
        parts = [
            [state[f"{prefix}{part}_{kind}_l0"] for kind in ("ih", "hh")]
            for part in ("weight", "bias")
        ]
        tensors[f"lstm.{layer}.{side}"] = torch.cat(parts[0], 1).T
        tensors[f"lstm.{layer}.{side}.bias"] = torch.stack(parts[1]).sum(0)
    if config.pooling == "generalized":
        layers = (pooling.hidden_weight, pooling.hidden_bias, pooling.feature_weight)
    else:
        no_bias = torch.zeros(config.attention_size)
        layers = (pooling.projection.weight.T, no_bias, pooling.hops.weight.T)
    tensors |= {f"pooling.{k}": layer for k, layer in zip(("1", "bias", "2"), layers, strict=True)}
    if config.classifier == "mlp":
        tensors["hidden"] = head.hidden.weight.T
    else:
        tensors |= {"rows": head.row_weight, "columns": head.column_weight}
    scale = torch.tensor(config.target_deviation or [1.0])
    output, bias = head.output.weight.T * scale, head.output.bias * scale
    bias = bias + torch.tensor(config.target_mean or [0.0])
    if _kind(config) == "probabilities":
        output, bias = output - output.mean(1, keepdim=True), bias - bias.mean()
    tensors |= {"hidden.bias": head.bias(), "output": output, "output.bias": bias}
    if model.reads_pairs and config.matching == "gated":
        sides = (model.matching.premise_weight, model.matching.hypothesis_weight)
        tensors |= {f"matching.{side}": weight for side, weight in enumerate(sides)}
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[tuple[str, str, int, int]]]:
    """Return tensors as bytes, and the name, type, first byte and length of each.

    What float16 holds exactly is float16.
    """
    content, places = b"", []
    for name, tensor in tensors.items():
        half = tensor.half()
        is_half = tensor.is_floating_point() and half.float().equal(tensor)
        array = (half if is_half else tensor).contiguous().numpy()
        places.append((name, array.dtype.name, len(content), array.size))
        content += array.astype(array.dtype.newbyteorder("<")).tobytes()
        content += bytes(-len(content) % 4)  # where a float32 may begin
    return content, places


def _hash(source: str, tag: str) -> str:
    """Return the source of a policy that allows the first element of a page with this tag."""
    content = source.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _about(checkpoint: str, model: Any, num_words: int, weights: str) -> Iterator[tuple[str, str]]:
    """Yield what readers should know of the model: the names and the facts."""
    facts = card_facts(checkpoint)
    unknown = "the card of the model does not say"
    yield "Trained on", facts["trained_on"] or unknown
    yield "Language", facts["language"] or unknown
    yield "Licence", facts["license"] or unknown
    for source, metrics in facts["measured"].items():
        named = (f"{name} {value}" for name, value in metrics.items() if name not in UNSHOWN)
        yield f"Measured on {source}", ", ".join(named)
    size = f"{num_words:,} words, {model.config.num_hops} hops"
    yield "Model", f"{type(model).__name__}: {size}, {weights} weights"
    yield "Limits", LIMITS


def _kind(config: Any) -> str:
    """Return what the scores of a classifier are."""
    return {REGRESSION: "values", MULTI_LABEL: "shares"}.get(config.problem_type, "probabilities")


def _difference(model: Any, exact: Any, num_words: int) -> float:
    """Return the largest difference between the logits of two models on random texts."""
    with torch.inference_mode():
        pairs = [
            [one(*batch).logits.numpy() for one in (model, exact)]
            for batch in random_batches(num_words)
        ]
    return max(relative_difference(*pair) for pair in pairs)
