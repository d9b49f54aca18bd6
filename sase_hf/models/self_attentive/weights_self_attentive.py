"""The weights of a checkpoint: checked before they are loaded, with their SHA-256 when saved.

Each family has this file, the same but for its name, since the files of a family travel alone.
"""

import hashlib
import os
from collections.abc import Container, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.modeling_utils import load_state_dict
from transformers.utils import logging
from transformers.utils.hub import cached_file

logger = logging.get_logger(__name__)

CHECKSUMS_NAME = "SHA256SUMS"  # as `sha256sum *.safetensors` writes it and `sha256sum -c` reads it


class CheckedPreTrainedModel(PreTrainedModel):
    """A model that loads no weights but those that were saved, all of them, and finite."""

    @classmethod
    def _load_pretrained_model(
        cls,
        model: Any,
        state_dict: Any,
        checkpoint_files: list[str] | None,
        load_config: Any,
        expected_keys: list[str] | None = None,
    ) -> Any:
        """Check the files, then load them; `from_pretrained` calls this with a model on `meta`."""
        if checkpoint_files and expected_keys is None:  # neither a state dict nor an adapter
            _check_files(checkpoint_files, load_config)
            if not load_config.is_quantized:  # its names and types are those of the quantizer
                _check_weights(model, checkpoint_files, load_config.ignore_mismatched_sizes)
            _check_finite(model, checkpoint_files)
        loaded = super()._load_pretrained_model(
            model, state_dict, checkpoint_files, load_config, expected_keys
        )
        # In the mapped file they lie at any address, on which the last bit of a sum depends.
        for weight in chain(model.parameters(), model.buffers()):
            weight.data = weight.data.clone()
        return loaded

    def _load_and_finalize_distributed_pretrained_model(self, folder: Any, *_: Any) -> Any:
        raise ValueError(
            f"{folder} holds shards of torch.distributed, which are not checked; save the model "
            "with save_pretrained and without distributed_checkpoint"
        )

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Save the model as transformers does, with the SHA-256 of its weights in `SHA256SUMS`."""
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process:
            write_checksums(save_directory)

    def _upload_modified_files(
        self, working_dir: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Upload what was saved; `save_pretrained` calls this before it returns."""
        write_checksums(working_dir)
        return super()._upload_modified_files(working_dir, *args, **kwargs)


def write_checksums(folder: str | os.PathLike[str]) -> None:
    """Write the SHA-256 of the weights in a folder."""
    paths = sorted(Path(folder).glob("*.safetensors"))
    lines = [f"{_sha256_of(path)}  {path.name}\n" for path in paths]
    Path(folder, CHECKSUMS_NAME).write_text("".join(lines), encoding="utf-8")


def _sha256_of(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_files(files: Sequence[str], load_config: Any) -> None:
    """Raise ValueError unless files are safetensors of the checkpoint's folder, as saved."""
    checkpoint = load_config.pretrained_model_name_or_path
    index = load_config.sharded_metadata or {"weight_map": {}}
    for name in set(index["weight_map"].values()):
        if Path(name).name != name:
            raise ValueError(
                f"the index of {checkpoint} names {name!r}, which is not a file of its own folder"
            )
    for file in files:
        if not file.endswith(".safetensors"):
            raise ValueError(
                f"{file} is not a safetensors file, and no other is loaded; load it with torch and "
                "hand the weights over: from_pretrained(None, config=config, state_dict=weights)"
            )
    checksums = Path(files[0]).with_name(CHECKSUMS_NAME)
    if not checksums.is_file() and not os.path.exists(checkpoint):  # it is on the Hub
        fetched = cached_file(
            checkpoint,
            CHECKSUMS_NAME,
            _raise_exceptions_for_missing_entries=False,
            **load_config.download_kwargs,
        )
        checksums = Path(fetched or checksums)
    if not checksums.is_file():
        logger.warning_once(
            f"{checkpoint} has no {CHECKSUMS_NAME}: whether its weights are those that were saved "
            "is not known. Loading and saving it with save_pretrained writes one"
        )
        return
    lines = checksums.read_text(encoding="utf-8", errors="replace").splitlines()
    parts = (line.partition(" ") for line in lines)
    expected = {name.lstrip(" *"): digest for digest, _, name in parts}  # "*": sha256sum -b
    for file in files:
        if expected.get(Path(file).name) != _sha256_of(file):
            raise ValueError(
                f"{file} is not as it was saved: its SHA-256 is not in {CHECKSUMS_NAME}. Download "
                f"or save it again; if it was changed on purpose, delete {CHECKSUMS_NAME}"
            )


def _check_weights(model: Any, files: Sequence[str], ignore_mismatched_sizes: bool) -> None:
    """Raise unless files hold the weights of a model, before memory is taken for them.

    A head may start from the checkpoint of a base model or of another head; its own parts may then
    be new. If the files hold any weight of a part, they must hold all of it.

    Raises:
        ValueError: If weights are missing, or not of a floating-point type.
        RuntimeError: If their shapes are not those of the config, as in transformers.
    """
    expected = model.state_dict()
    found = {
        _own_name(model, expected, name): weight
        for file in files
        for name, weight in load_state_dict(file, map_location="meta").items()
    }
    own = {name: weight for name, weight in found.items() if name in expected}
    is_own = type(model).__name__ in (model.config.architectures or [type(model).__name__])
    is_base = model.base_model is model
    begun = {model.base_model_prefix, *(name.partition(".")[0] for name in own)}
    missing = [
        name
        for name in expected
        if name not in own and (is_own or is_base or name.partition(".")[0] in begun)
    ]
    where = Path(files[0]).parent
    if missing:
        raise ValueError(
            f"the weights in {where} lack {_first(missing)}. Save the whole model with "
            "save_pretrained"
        )
    mismatched = [
        f"{name} {tuple(weight.shape)} instead of {tuple(expected[name].shape)}"
        for name, weight in own.items()
        if weight.shape != expected[name].shape
    ]
    if mismatched and not ignore_mismatched_sizes:
        raise RuntimeError(
            f"the weights in {where} have other shapes than the config asks for: "
            f"{_first(mismatched)}. Correct the config, or begin these weights anew with "
            "ignore_mismatched_sizes=True"
        )
    whole = [
        f"{name} {weight.dtype}"
        for name, weight in own.items()
        if expected[name].is_floating_point() and not weight.is_floating_point()
    ]
    if whole:
        raise ValueError(
            f"the weights in {where} are not of a floating-point type: {_first(whole)}. Save them "
            "as float32, float16 or bfloat16"
        )


def _own_name(model: Any, expected: Container[str], name: str) -> str:
    """Return the model's name of a weight in a file, that of its base model or of its head."""
    prefix = f"{model.base_model_prefix}."
    names = (name, prefix + name, name.removeprefix(prefix))
    return next((each for each in names if each in expected), name)


def _check_finite(model: Any, files: Sequence[str]) -> None:
    """Raise ValueError unless all floating-point weights of a model are finite."""
    expected = model.state_dict()
    named = (
        (_own_name(model, expected, name), weight)
        for file in files
        for name, weight in load_state_dict(file).items()
    )
    broken = [
        name
        for name, weight in named
        if name in expected and weight.is_floating_point() and weight.numel() > 0
        # Least and largest take no copy of a matrix, as `isfinite` would.
        if not torch.stack(weight.float().aminmax()).isfinite().all()
    ]
    if broken:
        where = Path(files[0]).parent
        raise ValueError(
            f"the weights in {where} are not finite: {_first(broken)}. Train the model again"
        )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


__all__ = ["CHECKSUMS_NAME", "CheckedPreTrainedModel", "write_checksums"]
