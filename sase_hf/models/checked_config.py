"""The base of the configs of both families: fields with help, and their checks."""

import difflib
from collections.abc import Iterable
from dataclasses import field
from numbers import Integral
from typing import Any

from transformers import PreTrainedConfig

MAX_LAYER_SIZE = 2**20
MAX_VOCAB_SIZE = 2**27
MAX_WEIGHT = 1000
MAX_SMOOTHING = 0.5
MAX_NUM_LABELS = 2**16  # without names


def flag(text: str, default: Any = None, **metadata: object) -> Any:
    """Return a dataclass field that is also a flag of the scripts, with this help."""
    return field(default=default, metadata={"help": text, **metadata})


class CheckedConfig(PreTrainedConfig):
    """A config that refuses misspelt fields and numbers that no model can have."""

    # Read by transformers.
    bos_token_id = sep_token_id = None
    # Pipeline tasks that an installed package provides, so that a checkpoint's code is not needed.
    local_pipelines = tuple[str, ...]()
    # Fields that change how a model learns, not what it answers.
    fields_of_training = tuple[str, ...]()

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse misspelt names; leave out the pipelines that the package provides."""
        fields_of_class = self.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
        for name in sorted(kwargs.keys() - self.attribute_map.keys()):
            close = difflib.get_close_matches(name, fields_of_class, n=1, cutoff=0.8)
            if close and not hasattr(type(self), name):
                raise TypeError(f"there is no field {name!r}; did you mean {close[0]!r}?")
        pipelines = dict(kwargs.pop("custom_pipelines", None) or {})
        for task in self.local_pipelines:
            pipelines.pop(task, None)
        if pipelines:
            kwargs["custom_pipelines"] = pipelines
        super().__post_init__(**kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "num_labels":  # before transformers makes a name for each
            is_number = isinstance(value, Integral) and not isinstance(value, bool)
            if not is_number or not 1 <= value <= MAX_NUM_LABELS:
                raise ValueError(
                    f"num_labels is {value!r}; give an integer from 1 to {MAX_NUM_LABELS}, or "
                    "id2label"
                )
        super().__setattr__(name, value)

    def check_sizes(self, names: Iterable[str], largest: dict[str, int]) -> None:
        """Refuse sizes that are below 1, above `largest`, or too large for any machine.

        Their type is checked again, because an alias of `attribute_map` bypasses `strict`.
        """
        for name in names:
            size = getattr(self, name)
            most = largest.get(name, MAX_LAYER_SIZE)
            if not isinstance(size, int) or not 1 <= size <= most:
                raise ValueError(f"{name} is {size!r}; it must be from 1 to {most}, an integer")

    def check_rates(self, *names: str) -> None:
        """Refuse rates outside [0, 1); None is 0."""
        for name in names:
            rate = getattr(self, name) or 0
            if not 0 <= rate < 1:
                raise ValueError(f"{name} is {rate}; it must be at least 0 and below 1")

    def check_weights(self, *names: str) -> None:
        """Refuse numbers that are negative, or so large that nothing else is learnt."""
        for name in names:
            value = getattr(self, name)
            if not 0 <= value <= MAX_WEIGHT:
                raise ValueError(f"{name} is {value}; it must be from 0 to {MAX_WEIGHT}")

    def check_label_smoothing(self) -> None:
        """Refuse a share of the target probability that hides which label is right."""
        share = getattr(self, "label_smoothing", 0)
        if not 0 <= share <= MAX_SMOOTHING:
            raise ValueError(f"label_smoothing is {share}; it must be from 0 to {MAX_SMOOTHING}")
