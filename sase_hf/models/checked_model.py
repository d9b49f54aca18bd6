"""The base of all models: checked weights and inputs, and the code beside the weights."""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase
from transformers import __version__ as transformers_version
from transformers.modeling_utils import load_state_dict
from transformers.utils import CONFIG_NAME, logging
from transformers.utils.hub import cached_file
from transformers.utils.import_utils import is_tracing

from .checked_config import CheckedConfig
from .checked_files import (
    CHECKSUMS_NAME,
    PART_NAMES,
    SavedParts,
    check_parts,
    deciding_fields,
    sha256_of,
    write_checksums,
)

if TYPE_CHECKING:
    from transformers.modeling_utils import LoadStateDictConfig
    from transformers.utils.loading_report import LoadStateDictInfo

logger = logging.get_logger(__name__)

Encoded = dict[str, list[Any]]  # the columns of a tokenizer for one text or pair

MAX_CHARACTERS = 2**20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class CheckedPreTrainedModel(PreTrainedModel):
    """A model that loads exactly the saved weights, and only if all are finite.

    The weights load only with the config and beside the tokenizer that they were saved with.
    """

    summary = "A sentence encoder."  # of a base model, for its card
    auto_class_of_heads: ClassVar[str]
    usual_head: ClassVar[str]  # `module.Class`, named beside the weights of a base model
    pipelines: ClassVar[dict[str, str]]  # task -> `module.Class`
    json_files: ClassVar[dict[str, object]] = {}  # by name, written beside the weights
    reads_pairs = False
    ranks = False  # whether its score of a pair is that of two texts that are embedded alone
    accepts_loss_kwargs = True
    base_model_prefix = "encoder"
    config: CheckedConfig
    _has_checked_weights = False
    # Of the tokenizer whose ids the word vectors of this base model are for; None: of any.
    _tokenizer_digest: str | None = None

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint, or weights given as `state_dict`; the arguments are transformers' own.

        Raises:
            ValueError: If a file is refused, weights are missing, not read by the model, not of a
                floating-point type or not finite, also in the `dtype` to load them with, or config
                or tokenizer are of other weights.
            RuntimeError: If a weight has another shape than in the config, as in transformers.
        """
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if not model._has_checked_weights:  # transformers loads some formats by another method
            raise ValueError(
                f"the weights in {model.name_or_path} were loaded and not checked: they are shards "
                f"of torch.distributed, or transformers {transformers_version} is too new for this "
                "model. Save the model with save_pretrained and without distributed_checkpoint, or "
                "install an older transformers"
            )
        return loaded

    @classmethod
    def _load_pretrained_model(
        cls,
        model: PreTrainedModel,
        state_dict: dict[str, Tensor] | None,
        checkpoint_files: list[str] | None,
        load_config: "LoadStateDictConfig",
        expected_keys: list[str] | None = None,
    ) -> "tuple[LoadStateDictInfo, dict[str, object]]":
        """Load weights between two checks; `from_pretrained` calls this with a model on `meta`.

        Only this method knows the files: a subfolder, a variant, an adapter or the config can
        change them. At this point the new weights have no memory yet.
        """
        assert isinstance(model, CheckedPreTrainedModel)
        is_adapter = expected_keys is not None
        files = None if is_adapter else checkpoint_files
        source = f"the weights in {load_config.pretrained_model_name_or_path}"
        saved: SavedParts | None = None
        if files:
            saved = _check_files(files, load_config)
            weights = chain.from_iterable(load_state_dict(file).items() for file in files)
            _check_values(weights, source, model, load_config.is_quantized)
        elif state_dict and not is_adapter:  # an empty one asks for new weights
            source = "the weights in state_dict"
            _check_values(state_dict.items(), source, model, load_config.is_quantized)
        info, offloaded = super()._load_pretrained_model(
            model, state_dict, checkpoint_files, load_config, expected_keys
        )
        are_given = bool(files or state_dict) and not is_adapter
        if are_given and not load_config.is_quantized:  # a quantizer has names of its own
            ignores_sizes = load_config.ignore_mismatched_sizes
            _check_names_and_shapes(model, info, source, ignores_sizes, are_files=bool(files))
        if files and saved:
            folder = _folder_of_parts(files, load_config)
            checkpoint = str(load_config.pretrained_model_name_or_path)
            check_parts(folder, checkpoint, saved, type(model.config))
            base: Any = model.base_model
            base._tokenizer_digest = saved.tokenizer
        model._has_checked_weights = True
        # Loaded weights lie in the mapped file at any address, and the address changes the last bit
        # of a sum. A copy is aligned like the weights of a new model.
        for weight in chain(model.parameters(), model.buffers()):
            if weight.device.type == "cpu":
                weight.data = weight.data.clone()
        return info, offloaded

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        push_to_hub: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Save the model so that every Auto class and `pipeline` load it.

        The arguments are those of transformers. In addition to its files, the folder gets the code,
        an `auto_map` that names its classes, `json_files`, and `SHA256SUMS`: the SHA-256 of the
        weights, and the config and the tokenizer that belong to them.

        Raises:
            ValueError: If `push_to_hub` comes with `state_dict` or `variant`, or a weight has
                another shape than the config asks for, so that what is saved could not be loaded.
            StrictDataclassClassValidationError: If the config allows no model.
        """
        if push_to_hub and (state_dict is not None or kwargs.get("variant")):
            raise ValueError(
                "push_to_hub=True sends the weights of the model under their usual name; leave "
                "state_dict and variant out, or save first and upload the folder"
            )
        if is_main_process:  # the weights of other processes may be elsewhere
            self._check_shapes_to_save(self.state_dict() if state_dict is None else state_dict)
        # Set each time, because the references of a config from the Hub point to its repository.
        vars(self.config).pop("custom_pipelines", None)
        for name, value in self.code_references().items():
            setattr(self.config, name, value)
        super().save_pretrained(save_directory, is_main_process, state_dict, False, *args, **kwargs)
        if is_main_process:
            self._write_beside_weights(Path(save_directory))
        if push_to_hub and is_main_process:  # saves once more, with this method
            names = signature(self.push_to_hub).parameters.keys() - {"repo_id"}
            options = {name: kwargs[name] for name in names if name in kwargs}
            self.push_to_hub(kwargs.get("repo_id", Path(save_directory).name), **options)

    def _check_shapes_to_save(self, weights: dict[str, Tensor]) -> None:
        """Raise ValueError unless weights have the shapes of a new model of the config."""
        if getattr(self, "hf_quantizer", None) is not None:  # which has shapes of its own
            return
        config: Any = deepcopy(self.config)
        config.validate()
        try:
            with torch.device("meta"):  # takes no memory and no random numbers
                expected = type(self)(config).state_dict()
        except TypeError:  # a subclass of someone, which is made of more than a config
            return
        for name in sorted(expected.keys() & weights.keys()):
            found = tuple(weights[name].shape)
            asked = tuple(expected[name].shape)
            if found != asked:
                raise ValueError(
                    f"{name} has the shape {found}, but the config asks for {asked}, so what is "
                    "saved could not be loaded. For other words, call resize_token_embeddings of "
                    f"the {type(self).__name__} and not of a part of it; for other labels or "
                    "sizes, set the config back, save, and load with ignore_mismatched_sizes=True"
                )

    def _write_beside_weights(self, folder: Path) -> None:
        """Write `json_files` and `SHA256SUMS`; give the weights the mode of the config."""
        for name, content in self.json_files.items():
            text = json.dumps(content, indent=2) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        config_path = folder / CONFIG_NAME
        for path in folder.glob("*.safetensors"):  # which transformers writes for their owner alone
            shutil.copymode(config_path, path)
        config = json.loads(config_path.read_text(encoding="utf-8"))
        fields = deciding_fields(config, type(self.config))
        base: Any = self.base_model
        write_checksums(folder, fields, base._tokenizer_digest)

    def code_references(self) -> dict[str, object]:
        """Return the config entries that name the code files beside the weights."""
        heads = self.auto_class_of_heads
        auto_map = {
            "AutoConfig": _reference(self.config),
            "AutoModel": _reference(self.base_model),
            heads: _reference(self) if self.is_head else self.usual_head,
        }
        if not self.is_head:
            return {"auto_map": auto_map}
        pipelines = {
            task: {"impl": name, "pt": [heads], "type": "text"}
            for task, name in self.pipelines.items()
        }
        return {"auto_map": auto_map, "custom_pipelines": pipelines}

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word vectors, also to resize them: the ids may be of another tokenizer."""
        self._tokenizer_digest = None
        super().set_input_embeddings(value)

    @property
    def is_head(self) -> bool:
        """Whether this is a head around a base model."""
        return self.base_model is not self

    def asked_outputs(
        self, attentions: bool | None, hidden_states: bool | None
    ) -> tuple[bool, bool]:
        """Return whether to return attentions and hidden states: by default as in the config."""
        if attentions is None:
            attentions = self.config.output_attentions
        if hidden_states is None:
            hidden_states = self.config.output_hidden_states
        return bool(attentions), bool(hidden_states)

    def embed(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """Return the word vectors (B, T, embedding_size) of ids (B, T), or those given.

        Raises:
            ValueError: If not exactly one of the two is given, or it has another shape.
        """
        if (input_ids is None) == (inputs_embeds is None):
            given = "neither" if input_ids is None else "both"
            raise ValueError(f"give either input_ids or inputs_embeds; got {given}")
        if input_ids is not None:
            check_two_dimensions("input_ids", input_ids)
            return self.get_input_embeddings()(input_ids.long())  # floats if T is 0
        assert inputs_embeds is not None
        width = self.config.embedding_size
        if inputs_embeds.ndim != 3 or inputs_embeds.shape[2] != width:
            raise ValueError(
                f"inputs_embeds has shape {tuple(inputs_embeds.shape)}; it must have three "
                f"dimensions, sentences, tokens and embedding_size={width}"
            )
        return inputs_embeds

    def given_mask(
        self, embeds: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
    ) -> Tensor | None:
        """Return True on the real tokens of a mask, (B, T); None without one: every token is real.

        `embeds` are the word vectors (B, T, ...). Without a mask, ids that look padded are logged
        as a warning, once. ValueError: the mask has another shape than (B, T).
        """
        if attention_mask is not None:
            check_one_per_token("attention_mask", attention_mask, embeds)
            return attention_mask != 0
        if input_ids is not None and input_ids.numel() > 0:
            self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
        return None


def first_tokens(real: Tensor, limit: int) -> Tensor:
    """Return which of the real tokens are read: the first `limit` of each row, shape (..., T)."""
    if real.shape[-1] <= limit and not is_tracing(real):
        return real
    return real & (real.cumsum(-1) <= limit)


def encode_read(
    model: Any, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **options: Any
) -> tuple[Encoded, list[int]]:
    """Return the tokens of a text or a pair that a model reads, and how many of each it does not.

    The former are the columns of the tokenizer, with `options`; padding is left out. The first text
    beyond the limit of the model is logged as a warning.
    """
    options = {"return_token_type_ids": True, "verbose": False, **options}
    encoded: BatchEncoding = tokenizer(*map(readable, texts), **options)
    types = encoded["token_type_ids"]
    real = [place for place, is_real in enumerate(encoded["attention_mask"]) if is_real]
    sides = [types[place] if model.reads_pairs else 0 for place in real]
    read = [real[place] for place in first_places(sides, model.config.max_tokens)]
    not_read = Counter(types[place] for place in real)
    not_read.subtract(types[place] for place in read)
    if len(read) < len(real):
        logger.warning_once(
            f"A text was truncated: the model reads {model.config.max_tokens} tokens (`max_tokens` "
            "of its config), and not the others."
        )
    kept = {name: [column[place] for place in read] for name, column in encoded.items()}
    return kept, [not_read[side] for side in range(len(texts))]


def readable(text: str) -> str:
    """Return a text up to `MAX_CHARACTERS`, with U+FFFD in place of each lone surrogate.

    A tokenizer takes some 150 bytes of memory for each byte of a text.
    """
    if len(text) > MAX_CHARACTERS:
        logger.warning_once(f"Only the first {MAX_CHARACTERS:,} characters of a text are read.")
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text[:MAX_CHARACTERS])


def first_places(sides: Sequence[int], limit: int) -> list[int]:
    """Return the places of the first `limit` tokens of each text, given the text of each token."""
    counts = Counter[int]()
    places = []
    for place, side in enumerate(sides):
        counts[side] += 1
        if counts[side] <= limit:
            places.append(place)
    return places


def check_two_dimensions(name: str, ids: Tensor) -> None:
    """Raise ValueError unless ids have the dimensions sentences and tokens."""
    if ids.ndim != 2:
        raise ValueError(
            f"{name} has shape {tuple(ids.shape)}; it must have two dimensions, sentences and "
            f"tokens. For a single sentence use {name}[None]"
        )


def check_one_per_token(name: str, tensor: Tensor, tokens: Tensor) -> None:
    """Raise ValueError unless a tensor has one entry for each token of (B, T, ...)."""
    if tensor.shape != tokens.shape[:2]:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; it must have one entry per token, "
            f"{tuple(tokens.shape[:2])}"
        )


def _reference(thing: object) -> str:
    """Return `module.Class`, the form of `auto_map`, without the package of the module."""
    return f"{type(thing).__module__.rpartition('.')[2]}.{type(thing).__name__}"


def _check_files(files: list[str], load_config: "LoadStateDictConfig") -> SavedParts | None:
    """Raise ValueError unless files are safetensors of the checkpoint's folder, as saved.

    Returns what `SHA256SUMS` says; None if there is none.
    """
    checkpoint = load_config.pretrained_model_name_or_path
    for name in set((load_config.sharded_metadata or {}).get("weight_map", {}).values()):
        if Path(name).name != name:
            raise ValueError(
                f"the index of {checkpoint} names {name!r}, which is not a file of its own folder"
            )
    for file in files:
        if not file.endswith(".safetensors"):
            raise ValueError(
                f"{file} is not a safetensors file, the one allowed format; load it with torch and "
                "hand the weights over: from_pretrained(None, config=config, state_dict=weights)"
            )
    checksums = _beside(files, CHECKSUMS_NAME, load_config)
    if not checksums.is_file():
        logger.warning_once(
            f"{checkpoint} has no {CHECKSUMS_NAME}, so its weights cannot be compared with the "
            f"saved ones. Load the checkpoint and save it with save_pretrained to write "
            f"{CHECKSUMS_NAME}"
        )
        return None
    saved = SavedParts.read(checksums)
    for file in files:
        if saved.weights.get(Path(file).name) != sha256_of(file):
            raise ValueError(
                f"{file} is not as it was saved: its SHA-256 is not in {CHECKSUMS_NAME}. Download "
                f"or save it again; if it was changed on purpose, delete {CHECKSUMS_NAME}"
            )
    return saved


def _beside(files: list[str], name: str, load_config: "LoadStateDictConfig") -> Path:
    """Return the path of a file beside the weights, fetched if they are on the Hub."""
    path = Path(files[0]).with_name(name)
    checkpoint = str(load_config.pretrained_model_name_or_path)
    if path.is_file() or os.path.exists(checkpoint):
        return path
    options: dict[str, Any] = dict(load_config.download_kwargs or {})
    options["_raise_exceptions_for_missing_entries"] = False
    return Path(cached_file(checkpoint, name, **options) or path)


def _folder_of_parts(files: list[str], load_config: "LoadStateDictConfig") -> Path:
    """Return the folder with the config and the tokenizer of the weights, fetched if needed."""
    for name in PART_NAMES:
        _beside(files, name, load_config)
    return Path(files[0]).parent


def _check_values(
    weights: Iterable[tuple[str, Tensor]], source: str, model: PreTrainedModel, is_quantized: bool
) -> None:
    """Raise ValueError unless the weights of the model are of a floating-point type and finite.

    They must also be finite in the type in which the model holds them. `source` says where they
    are from, such as "the weights in FOLDER".
    """
    expected = model.state_dict()
    prefix = f"{model.base_model_prefix}."
    for name, weight in weights:
        # A base model and its heads load each other's checkpoints.
        names = {name, prefix + name, name.removeprefix(prefix)} & expected.keys()
        is_read_as_float = any(expected[name].is_floating_point() for name in names)
        if not is_read_as_float or weight.numel() == 0:
            continue
        read_as = min(names)
        if not weight.is_floating_point() and not is_quantized:
            raise ValueError(
                f"{source} are not of a floating-point type: {read_as} {weight.dtype}. Save them "
                "as float32, float16 or bfloat16"
            )
        # Least and largest take no copy of a matrix, as `isfinite` would.
        extremes = torch.stack(weight.float().aminmax())
        if not extremes.isfinite().all():
            raise ValueError(f"{source} are not finite: {read_as}. Train the model again")
        dtype = expected[read_as].dtype
        if not is_quantized and not extremes.to(dtype).isfinite().all():
            raise ValueError(
                f"{source} are too large for {dtype}: {read_as} has numbers up to "
                f"{extremes.abs().max():.6g}. Load them with dtype=torch.float32"
            )


def is_of_model(name: str, model: PreTrainedModel) -> bool:
    """Return whether a weight of a file is of a part that the model has.

    If the model does not read it, it is of a layer that the config does not count. The parts of
    heads have other names than those of their base models.
    """
    prefix = f"{model.base_model_prefix}."
    # With those that the config leaves out, such as a linear part, which are None.
    parts = {*model._modules, *model.base_model._modules}
    return name.startswith(prefix) or _part_of(name.removeprefix(prefix)) in parts


def _part_of(name: str) -> str:
    """Return the part of the model that a weight belongs to, such as "classifier"."""
    return name.partition(".")[0]


def _check_names_and_shapes(
    model: PreTrainedModel,
    info: "LoadStateDictInfo",
    source: str,
    ignore_mismatched_sizes: bool,
    are_files: bool,
) -> None:
    """Raise unless a model got all its weights, in their shapes.

    A head may start from the checkpoint of a base model or of another head; its own parts may then
    be new. A part that got any weight must have got all.
    """
    class_name = type(model).__name__
    architectures = model.config.architectures or [class_name]
    # The config beside files says what they are of; that of a state dict is the caller's.
    is_whole = model.base_model is model or (are_files and class_name in architectures)
    missing = sorted(info.missing_keys)
    if not is_whole:
        loaded = model.state_dict().keys() - info.missing_keys
        begun_parts = {model.base_model_prefix, *map(_part_of, loaded)}
        missing = [name for name in missing if _part_of(name) in begun_parts]
    if missing:
        raise ValueError(
            f"{source} lack {', '.join(missing[:3])}. Save the whole model with save_pretrained"
        )
    reader: Any = (
        model if is_whole else model.base_model
    )  # another head's own parts may stay unread
    unread = sorted(name for name in info.unexpected_keys if is_of_model(name, reader))
    if unread:
        raise ValueError(
            f"{source} hold {', '.join(unread[:3])}, which the model of its config does not read. "
            "Restore the config that they were saved with"
        )
    if info.mismatched_keys and not ignore_mismatched_sizes:
        name, found, expected = min(info.mismatched_keys)
        raise RuntimeError(
            f"{source} have other shapes than the config asks for: {name} "
            f"{tuple(found)} instead of {tuple(expected)}. Correct the config, or begin these "
            "weights anew with ignore_mismatched_sizes=True"
        )
