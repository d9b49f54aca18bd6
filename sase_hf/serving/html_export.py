"""A classifier as one HTML file, which reads what is typed into it: no server and no network.

The page computes what the `self-attention` pipeline computes, in the JavaScript of
`live/live_model.js` and `live/live_page.js`, and goes through the texts of a file that is opened
in it, in that of `live/live_opened.js` and `live/live_file.js`. People correct its answers by
`corrections.js`, which it shares with the report. Its policy lets the browser run this script and
nothing else, and load nothing.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from copy import deepcopy
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from transformers import TokenizersBackend

from ..data import columns
from ..data.tokenizer import built_settings
from ..hub.card import card_facts
from ..models.answers import answers_of
from ..models.checkpoint import CheckedPreTrainedModel
from ..models.explanation_self_attentive import MAX_GROWTH
from ..models.modeling_self_attentive import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
)
from ..utils.loading import load_checkpoint, name_checkpoints
from ..utils.neighbours import NUM_NEAREST, STEPS
from ..utils.text import UNSPACED, refusal
from ..visualization import attended_text, page
from ..visualization.rendering import INVISIBLE_IN_JAVASCRIPT, render, with_hashes

Classifier = SelfAttentiveForSequenceClassification | SelfAttentiveForNLI

LIVE_FOLDER = Path(__file__).with_name("live")
PART_SIZE = 3 * 2**18  # bytes, decoded at a time
MAX_DRAWN = 100_000  # words times hops, beyond which no single hop can be chosen
VECTORS = "encoder.embeddings.weight"
# Weights by their names in `live_model.js`: those of one matrix, outputs x inputs, and lists.
MATRICES = {
    "pooling.hidden": "encoder.pooling.projection.weight",
    "pooling.output": "encoder.pooling.hops.weight",
    "hidden": "classifier.hidden.weight",
}
LISTS = {
    "rows": "classifier.row_weight",
    "columns": "classifier.column_weight",
    "linear.words": "linear_part.word_weight",
    "linear.pairs": "linear_part.pair_weight",
}
GATES = ("matching.premise_weight", "matching.hypothesis_weight")
SETTINGS = (
    "hidden_size",
    "num_lstm_layers",
    "lstm_shortcuts",
    "attention_function",
    "normalize_states",
    "num_hops",
    "max_tokens",
)
MAX_CHARACTERS = 20_000  # of a text that is typed
# Where a list of matrices or vectors lies among the weights of a page: its name in `live_model.js`,
# the type of its numbers in numpy, its first byte, how many numbers it has, and how many parts.
Place = tuple[str, str, int, int, int]


def live_page(
    checkpoint: str, *, title: str | None = None, about: Mapping[str, object] | None = None
) -> str:
    """Return the page of a classifier, with its weights rounded as `rounded` does.

    The checkpoint is a classifier of texts or pairs with a BiLSTM, a pooling with attention and a
    tokenizer of `build_tokenizer`, or ValueError is raised. The title is by default the name of the
    checkpoint; `about` has entries that replace those of the card, such as `license`.
    """
    model, tokenizer = load_checkpoint(checkpoint)
    settings = built_settings(tokenizer)
    obstacle = obstacle_of(model, settings)
    if obstacle is not None:
        raise refusal(
            f"{checkpoint} {obstacle}, which a page cannot compute",
            "export it to ONNX (name a folder, no .html file) or, if it translates, use predict",
        )
    assert isinstance(model, Classifier)  # others have an obstacle
    vocabulary = tokenizer.get_vocab()
    weights, places = _packed(_tensors(rounded(model)))
    values = {
        **_values_of_model(model),
        "tokenizer": {**(settings or {}), "unknown": tokenizer.unk_token_id},
        "words": sorted(vocabulary, key=vocabulary.__getitem__),
        "tensors": places,
        "columns": {"texts": columns.TEXTS, "labels": columns.LABELS, "pairs": columns.PAIRS},
        "examples": examples(tokenizer, model),
        "invisible": INVISIBLE_IN_JAVASCRIPT,
        "unspaced": UNSPACED.replace("p{", "p{Script="),
        "max_characters": MAX_CHARACTERS,
        "max_drawn": MAX_DRAWN,
        "max_labels": page.MAX_LABELS,
        "top_words": page.TOP_WORDS,
        "min_added": attended_text.MIN_ADDED,
        "max_growth": MAX_GROWTH,
        "full_strength": attended_text.FULL_STRENGTH,
        "min_ratio": attended_text.MIN_RATIO,
        "led_by_hops": attended_text.LED_BY_HOPS,
        "none_stands_out": attended_text.NONE_STANDS_OUT,
        "unlike": attended_text.UNLIKE,
        "num_nearest": NUM_NEAREST,
        "steps": STEPS,
    }
    content = zlib.compress(weights + json.dumps(values).encode())
    rendered = render(
        "live.html",
        LIVE_FOLDER,
        **values,
        title=title or next(iter(name_checkpoints([checkpoint]))),
        about=card_facts(checkpoint, about or {}),
        layout="page.html",
        full=1.0,
        num_views=model.config.num_hops + 1,
        has_linear=model.linear_part is not None,
        weights_end=len(weights),
        num_bytes=len(content),
        parts=[
            base64.b64encode(content[start : start + PART_SIZE]).decode()
            for start in range(0, len(content), PART_SIZE)
        ],
    )
    return with_hashes(rendered)


def examples(tokenizer: TokenizersBackend, model: Classifier) -> list[list[str]]:
    """Return made-up texts, or pairs, in the language of which the tokenizer knows most.

    That is the one with the least share of unknown tokens; of several, the one in longer tokens.
    """

    def strangeness(pairs: list[list[str]]) -> tuple[float, float]:
        text = " ".join(first for first, _ in pairs)
        tokens = tokenizer(text)["input_ids"]
        return tokens.count(tokenizer.unk_token_id) / len(tokens), len(tokens) / len(text)

    of_languages = json.loads((LIVE_FOLDER / "examples.json").read_text("utf-8"))
    pairs: list[list[str]] = min(of_languages.values(), key=strangeness)
    return [pair if model.reads_pairs else pair[:1] for pair in pairs]


def obstacle_of(model: CheckedPreTrainedModel, settings: Mapping[str, object] | None) -> str | None:
    """Return what a checkpoint has that the script of the page cannot compute; None if nothing."""
    config = model.config
    if not isinstance(model, Classifier):
        return f"is a {type(model).__name__}"
    if config.encoder != "bilstm":
        return f"has encoder={config.encoder!r}"
    if not config.has_hops:
        return f"has pooling={config.pooling!r}"
    if settings is None:
        return "has a tokenizer that build_tokenizer did not make"
    return None


def _values_of_model(model: Classifier) -> dict[str, object]:
    """Return what the browser reads of a model beside its weights."""
    config = model.config
    answers = answers_of(config)
    row_width = model.matching.row_width if model.reads_pairs else config.hidden_size
    # Matrices of hidden units: the step in M from one to the next, and between its inputs.
    groups = [("hidden", 0, 1)]
    if config.classifier == "pruned_mlp":
        groups = [("rows", row_width, 1), ("columns", 1, row_width)]
    kept = model.neighbours
    return {
        **{name: getattr(config, name) for name in SETTINGS},
        "matching": config.matching if model.reads_pairs else "none",
        "row_width": row_width,
        "groups": groups,
        "kind": answers.kind,
        "labels": answers.names,
        "answer_threshold": answers.threshold,
        "neighbours": [kept.shown(row, answers) for row in range(len(kept.rows) if kept else 0)],
    }


def rounded(model: Classifier) -> Classifier:
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


def _tensors(model: Classifier) -> dict[str, Tensor]:
    """Return the weights of a page by the names of `live_model.js`: lists of matrices or vectors.

    A matrix is inputs x outputs.
    """
    state, config = model.state_dict(), model.config
    scales = _scales(state[VECTORS])
    vectors = (state[VECTORS] / scales).round().to(torch.int8)
    tensors = {"vectors": vectors, "scales": scales}
    tensors |= {name: state[key].T[None] for name, key in MATRICES.items() if key in state}
    tensors |= {name: state[key] for name, key in LISTS.items() if key in state}
    tensors |= _lstm_tensors(state, config.num_lstm_layers)
    # In the units of the targets of a regression and, for one label per text, logits of mean 0.
    scale = torch.tensor(config.target_deviation or [1.0])
    output = state["classifier.output.weight"].T * scale
    bias = state["classifier.output.bias"] * scale + torch.tensor(config.target_mean or [0.0])
    bias = bias + state.get("linear_part.bias", 0)
    if answers_of(config).has_one_label:
        output = output - output.mean(1, keepdim=True)
        bias = bias - bias.mean()
    tensors["output"] = output[None]
    tensors["output.bias"] = bias[None]
    tensors["hidden.bias"] = model.classifier.bias().detach()[None]
    gates = [weight for key, weight in state.items() if key in GATES]
    if gates:
        tensors["matching"] = torch.cat(gates)
    if model.neighbours is not None:
        tensors["neighbours"] = model.neighbours.rows
        for name in ("mean", "unit", "held_out"):
            tensors[f"neighbours.{name}"] = getattr(model.neighbours, name)[None]
    return tensors


def _lstm_tensors(state: Mapping[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """Return the weights and the bias of each run of the BiLSTM: forward and backward by layers."""
    tensors = {}
    for run, (layer, way) in enumerate(product(range(num_layers), ("", "_reverse"))):
        prefix = f"encoder.token_encoder.layers.{layer}"
        weights = [state[f"{prefix}.weight_{part}_l0{way}"] for part in ("ih", "hh")]
        bias = state[f"{prefix}.bias_ih_l0{way}"] + state[f"{prefix}.bias_hh_l0{way}"]
        tensors[f"lstm.{run}"] = torch.cat(weights, 1).T[None]
        tensors[f"lstm.{run}.bias"] = bias[None]
    return tensors


def _packed(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[Place]]:
    """Return tensors as bytes, and where each list lies in them.

    What float16 holds exactly is float16.
    """
    content = b""
    places = []
    for name, tensor in tensors.items():
        half = tensor.half()
        if tensor.is_floating_point() and half.float().equal(tensor):
            tensor = half
        array = tensor.contiguous().numpy()
        places.append((name, array.dtype.name, len(content), array.size, len(array)))
        content += array.astype(array.dtype.newbyteorder("<")).tobytes()
        content += bytes(-len(content) % 4)  # where a float32 may begin
    return content, places
