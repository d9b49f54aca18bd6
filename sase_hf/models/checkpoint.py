"""What is refused: files that are not as saved, weights and inputs that no model can have.

`SHA256SUMS` has a line for each file of weights, config, tokenizer, code and card, as `sha256sum`
writes it and `sha256sum -c` reads it:

    <SHA-256>  model.safetensors
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Never

import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files
from transformers.utils import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    logging,
)
from transformers.utils.hub import cached_file

from .checked_config import CheckedConfig

# ---- files ---------------------------------------------------------------------------------------


CHECKSUMS_NAME = "SHA256SUMS"
TOKENIZER_NAME = "tokenizer.json"
# With those of older tokenizers, which transformers would read beside the others.
TOKENIZER_NAMES = (
    TOKENIZER_NAME,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
NEIGHBOURS_NAME = "neighbours.safetensors"  # training rows, which the package compares with texts
HEATMAP_NAME = "heatmap.svg"  # the picture of a card
PLACEHOLDER = "ORGANISATION/NAME"  # in a card, until the name of its repository is known
PART_NAMES = (CONFIG_NAME, GENERATION_CONFIG_NAME, NEIGHBOURS_NAME, *TOKENIZER_NAMES)


def saved_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that the list of a folder names; none without a list."""
    path = folder / CHECKSUMS_NAME
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    # Between them stand two spaces, or " *".
    return {line[66:]: line[:64] for line in text.splitlines() if not line.startswith("#")}


def check_as_saved(digests: dict[str, str], folder: Path, name: str, checkpoint: str) -> None:
    """Raise ValueError for a file with another SHA-256 than the list of its checkpoint says."""
    if not (folder / name).is_file() or sha256_of(folder / name) != digests.get(name):
        raise ValueError(
            f"{name} in {checkpoint} is not as it was saved: its SHA-256 is not in "
            f"{CHECKSUMS_NAME}. Download it again (in a clone, with `git lfs pull`); after a "
            f"change on purpose, delete {CHECKSUMS_NAME}, then load model and tokenizer and save "
            f"both with save_pretrained; delete {NEIGHBOURS_NAME}, too, if weights changed"
        )


def list_files(folder: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Enter files in the `SHA256SUMS` of a folder, if it has one; those that are gone leave it."""
    folder = Path(folder)
    if not (folder / CHECKSUMS_NAME).is_file():
        return
    digests = saved_digests(folder)
    for name in names:
        digests.pop(name, None)
        if (folder / name).is_file():
            digests[name] = sha256_of(folder / name)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    (folder / CHECKSUMS_NAME).write_text("".join(lines), encoding="utf-8")


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- models --------------------------------------------------------------------------------------


logger = logging.get_logger(__name__)

Encoded = dict[str, list[Any]]  # the columns of a tokenizer for one text or pair

MAX_CHARACTERS = 2**20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class CheckedPreTrainedModel(PreTrainedModel):
    """A model that loads exactly the saved weights, and only if all are finite.

    The weights load only with the config and beside the tokenizer that they were saved with. What
    is refused is a ValueError: files that are not as they were saved, or weights that are missing,
    not read by the model or not finite in the `dtype` to load them with. Weights of other shapes
    are a RuntimeError, as in transformers.
    """

    summary = "A sentence encoder."  # of a base model, for its card
    auto_class_of_heads: ClassVar[str]
    code_module: str  # the file that brings the classes; with it travels what it imports
    usual_head: ClassVar[str]  # the class that is named beside the weights of a base model
    pipelines: ClassVar[dict[str, str]]  # task -> `module.Class`
    json_files: ClassVar[dict[str, object]] = {}  # by name, written beside the weights
    reads_pairs = False
    accepts_loss_kwargs = True
    base_model_prefix = "encoder"
    config: CheckedConfig

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "") -> None:
        """Do nothing: `save_pretrained` itself writes the code and the `auto_map`."""

    @classmethod
    def _load_pretrained_model(
        cls,
        model: Any,
        state_dict: dict[str, Tensor] | None,
        checkpoint_files: list[str] | None,
        load_config: Any,
        expected_keys: list[str] | None = None,
    ) -> Any:
        """Load weights between two checks; `from_pretrained` calls this with a model on `meta`.

        Only this method knows the files: a subfolder, a variant, an adapter or the config can
        change them. At this point the new weights have no memory yet.
        """
        is_adapter = expected_keys is not None  # for a model whose own weights were checked
        files = None if is_adapter else checkpoint_files
        source = f"the weights in {load_config.pretrained_model_name_or_path or 'state_dict'}"
        if files:
            _check_files(files, load_config)
        info, offloaded = super()._load_pretrained_model(
            model, state_dict, checkpoint_files, load_config, expected_keys
        )
        # A quantizer has names of its own, and an empty dict asks for new weights.
        is_given = not is_adapter and (files or state_dict)
        if is_given and not load_config.is_quantized:
            _check_names(model, info, source, are_files=bool(files))
        for name, weight in chain(model.named_parameters(), model.named_buffers()):
            if weight.is_meta:
                continue
            check_values(name, weight, source)
            # Loaded weights lie in the mapped file at any address, and the address changes the last
            # bit of a sum. A copy is aligned like the weights of a new model.
            if weight.device.type == "cpu":
                weight.data = weight.data.clone()
        return info, offloaded

    def _load_and_finalize_distributed_pretrained_model(self, folder: str, *args: Any) -> Never:
        """Refuse shards of torch.distributed, which transformers loads past the checks above."""
        raise ValueError(
            f"the weights in {folder} are shards of torch.distributed, which are not checked; save "
            "the model with save_pretrained and without distributed_checkpoint"
        )

    def _replicate_for_data_parallel(self) -> Never:
        """Refuse `torch.nn.DataParallel`, which would compute another loss."""
        raise ValueError(
            f"a {type(self).__name__} does not run in torch.nn.DataParallel. Start one process per "
            "GPU (torchrun --nproc_per_node NUM_GPUS -m sase_hf train ...), or use one GPU: "
            "CUDA_VISIBLE_DEVICES=0"
        )

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
        an `auto_map` that names its classes, `json_files`, and `SHA256SUMS`: the SHA-256 of each
        file. A tokenizer is listed when it is saved after the model.

        Raises:
            ValueError: If `push_to_hub` is asked for: it would send some of the files.
            StrictDataclassClassValidationError: If the config allows no model.
        """
        if push_to_hub:
            raise ValueError(
                "push_to_hub=True would send the files of transformers alone; call "
                "model.push_to_hub(NAME), which sends all"
            )
        # Set each time, because the references of a config from the Hub point to its repository.
        vars(self.config).pop("custom_pipelines", None)
        for name, value in self.code_references().items():
            setattr(self.config, name, value)
        super().save_pretrained(save_directory, is_main_process, state_dict, False, *args, **kwargs)
        if not is_main_process:
            return
        folder = Path(save_directory)
        older = SAFE_WEIGHTS_INDEX_NAME
        if any(folder.glob("model-*-of-*.safetensors")):
            older = SAFE_WEIGHTS_NAME
        (folder / older).unlink(missing_ok=True)
        code = self.code_files()
        for path in code:
            shutil.copyfile(path, folder / path.name)
        for name, content in self.json_files.items():
            text = json.dumps(content, indent=2) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        weights = list(folder.glob("*.safetensors"))
        for path in weights:  # which transformers writes for their owner alone
            shutil.copymode(folder / CONFIG_NAME, path)
        names = [path.name for path in (*weights, *folder.glob("*.index.json"), *code)]
        names += [CONFIG_NAME, GENERATION_CONFIG_NAME, HEATMAP_NAME, *self.json_files]
        # Without the package nothing renews them when the tokenizer is saved.
        old = saved_digests(folder) if self.config.registered_task else {}
        kept = [f"{old[name]}  {name}\n" for name in TOKENIZER_NAMES if name in old]
        (folder / CHECKSUMS_NAME).write_text("".join(kept))
        list_files(folder, names)

    def code_files(self) -> list[Path]:
        """Return the files of code that a checkpoint of this model needs."""
        module = Path(__file__).with_name(f"{self.code_module}.py")
        return sorted(map(Path, {str(module), *get_relative_import_files(module)}))

    def code_references(self) -> dict[str, object]:
        """Return the config entries that name the code files beside the weights."""
        heads = self.auto_class_of_heads
        head = type(self).__name__ if self.is_head else self.usual_head
        auto_map = {
            "AutoConfig": f"configuration_{self.config.model_type}.{type(self.config).__name__}",
            "AutoModel": f"{self.code_module}.{type(self.base_model).__name__}",
            heads: f"{self.code_module}.{head}",
        }
        if not self.is_head:
            return {"auto_map": auto_map}
        pipelines = {
            task: {"impl": name, "pt": [heads], "type": "text"}
            for task, name in self.pipelines.items()
        }
        return {"auto_map": auto_map, "custom_pipelines": pipelines}

    @property
    def is_head(self) -> bool:
        """Whether this is a head around a base model."""
        return self.base_model is not self

    def asked_outputs(
        self, attentions: bool | None, hidden_states: bool | None
    ) -> tuple[bool, bool]:
        """Return whether to return attentions and hidden states: by default as in the config."""
        config = self.config
        return (
            bool(config.output_attentions if attentions is None else attentions),
            bool(config.output_hidden_states if hidden_states is None else hidden_states),
        )

    def embed(
        self,
        input_ids: Tensor | None,
        inputs_embeds: Any,
        attention_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return word vectors (B, T, embedding_size), and True on the real tokens, (B, T).

        The vectors are those of ids (B, T), or those given. Without a mask every token is real, and
        ids that look padded are logged as a warning, once.

        Raises:
            ValueError: If not exactly one of the two is given, or the mask has another shape.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        if input_ids is not None:
            inputs_embeds = self.get_input_embeddings()(input_ids.long())  # floats if T is 0
            if attention_mask is None and input_ids.numel():
                self.warn_if_padding_and_no_attention_mask(input_ids, attention_mask)
        return inputs_embeds, real_tokens(inputs_embeds, attention_mask)


def real_tokens(tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return True on the real ones of tokens (B, T, ...): all, or those of a mask (B, T).

    ValueError: the mask has another shape.
    """
    if attention_mask is None:
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    check_one_per_token("attention_mask", attention_mask, tokens)
    return attention_mask != 0


def wide(x: Tensor) -> Tensor:
    """Return a tensor in float32, or in its own precision if that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def first_tokens(real: Tensor, limit: int) -> Tensor:
    """Return which of the real tokens are read: the first `limit` of each row, shape (..., T)."""
    return real & (real.cumsum(-1) <= limit)


def encode_read(
    model: Any, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **options: Any
) -> tuple[Encoded, list[int]]:
    """Return the tokens of a text or a pair that a model reads, and how many of each it does not.

    The former are the columns of the tokenizer, with `options`. The first text beyond the limit of
    the model is logged as a warning.
    """
    options = {"return_token_type_ids": True, "verbose": False, **options}
    encoded: BatchEncoding = tokenizer(*map(readable, texts), **options)
    if len(texts) > 1 and 1 not in encoded["token_type_ids"]:  # the second may be empty
        check_tells_apart(tokenizer)
    most = model.config.max_tokens
    read: list[int] = []
    not_read = []
    for side in range(len(texts)):
        places = [place for place, of in enumerate(encoded["token_type_ids"]) if of == side]
        read += places[:most]
        not_read.append(len(places[most:]))
    if any(not_read):
        logger.warning_once(
            f"A text was truncated: the model reads {most} tokens (`max_tokens` of its config), "
            "and not the others."
        )
    return {name: [column[place] for place in read] for name, column in encoded.items()}, not_read


def check_tells_apart(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ValueError if a tokenizer gives the texts of a pair the same token type."""
    if 1 not in tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]:
        raise ValueError(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type; take "
            "one of sase_hf.build_tokenizer"
        )


def readable(text: str) -> str:
    """Return a text up to `MAX_CHARACTERS`, with U+FFFD in place of each lone surrogate.

    A tokenizer takes some 150 bytes of memory for each byte of a text.
    """
    if len(text) > MAX_CHARACTERS:
        logger.warning_once(f"Only the first {MAX_CHARACTERS:,} characters of a text are read.")
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text[:MAX_CHARACTERS])


def check_one_per_token(name: str, tensor: Tensor, tokens: Tensor) -> None:
    """Raise ValueError unless a tensor has one entry for each token of (B, T, ...)."""
    if tensor.shape != tokens.shape[:2]:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; it must have one entry per token, "
            f"{tuple(tokens.shape[:2])}"
        )


def _check_files(files: list[str], load_config: Any) -> None:
    """Raise ValueError unless files, or those of an index, are safetensors of the folder, as saved.

    As saved must be the config and the tokenizer, too, which are fetched, if they are on the Hub.
    """
    checkpoint = str(load_config.pretrained_model_name_or_path)
    shards = (load_config.sharded_metadata or {}).get("weight_map", {})
    for name in shards.values() or (Path(file).name for file in files):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(
                f"{checkpoint} has its weights in {name!r}, which is no safetensors file of its "
                "own; load others with torch and hand them over: "
                "from_pretrained(None, config=config, state_dict=weights)"
            )
    if not os.path.exists(checkpoint):
        options = load_config.download_kwargs or {}
        for name in (CHECKSUMS_NAME, *PART_NAMES):
            cached_file(checkpoint, name, _raise_exceptions_for_missing_entries=False, **options)
    _compare_with_list([Path(file) for file in files], checkpoint)


def _compare_with_list(paths: list[Path], checkpoint: str) -> None:
    """Raise ValueError unless weights, and the parts beside them, are as the list says."""
    listed = [path for path in paths if path.with_name(CHECKSUMS_NAME).is_file()]
    if not listed:
        logger.warning_once(
            f"{checkpoint} has no {CHECKSUMS_NAME}, so its weights cannot be compared with the "
            f"saved ones. Load the checkpoint and save it with save_pretrained to write "
            f"{CHECKSUMS_NAME}"
        )
        return
    folder = listed[0].parent
    digests = saved_digests(folder)
    parts = digests.keys() & PART_NAMES
    if TOKENIZER_NAME in parts:  # which other files could change
        parts |= {*TOKENIZER_NAMES}
    has_tokenizer = (folder / TOKENIZER_NAME).is_file()  # one may be left out as a whole
    for name in (*(path.name for path in paths), *sorted(parts)):
        if (folder / name).is_file() or (has_tokenizer and name in digests):
            check_as_saved(digests, folder, name, checkpoint)


def check_values(name: str, weight: Tensor, source: str) -> None:
    """Raise ValueError unless a weight is finite in its type; `source` says where it is from."""
    if weight.numel() == 0 or not weight.is_floating_point():
        return
    # Least and largest take no copy of a matrix, as `isfinite` would.
    if not torch.stack(weight.float().aminmax()).isfinite().all():
        raise ValueError(
            f"{source} are not finite in {weight.dtype}: {name}. Load them with "
            "dtype=torch.float32, or train the model again"
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


def _check_names(model: PreTrainedModel, info: Any, source: str, *, are_files: bool) -> None:
    """Raise ValueError unless a model got all its weights, and read all of its own.

    A head may start from the checkpoint of a base model or of another head; its own parts may then
    be new. A part that got any weight must have got all.
    """
    class_name = type(model).__name__
    architectures = model.config.architectures or [class_name]
    # The config beside files says what they are of; that of a state dict is the caller's.
    is_whole = model.base_model is model or (are_files and class_name in architectures)
    missing = info.missing_keys
    if not is_whole:
        loaded = model.state_dict().keys() - missing
        begun_parts = {model.base_model_prefix, *map(_part_of, loaded)}
        missing = {name for name in missing if _part_of(name) in begun_parts}
    # Another head's own parts may stay unread.
    reader: Any = model if is_whole else model.base_model
    unread = {name for name in info.unexpected_keys if is_of_model(name, reader)}
    for fault, names in {"lack": missing, "are of a model that reads": unread}.items():
        if names:
            raise ValueError(
                f"{source} {fault} {', '.join(sorted(names)[:3])}. Restore the config that they "
                "were saved with, or save the whole model with save_pretrained"
            )
