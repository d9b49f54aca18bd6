"""The base of the configs of both families: fields that say what they mean and what they may be."""

import difflib
from dataclasses import field, fields
from typing import Any

from transformers import PreTrainedConfig

MAX_LAYER_SIZE = 2**20
MAX_VOCAB_SIZE = 2**27
MAX_NUM_LABELS = 2**16
SIZE = (1, MAX_LAYER_SIZE)
RATE = (0, 1)
DROPOUT = (0, 0.99)  # a model that reads nothing learns nothing
SMOOTHING = (0, 0.5)  # with more, the right label would not be the most probable one
WEIGHT = (0, 1000)  # with more, nothing else would be learnt


def described(text: str, default: Any = None, **rules: object) -> Any:
    """Return a dataclass field that this text describes, with the rules that its value obeys.

    between: the least and the largest number; an integer is a `SIZE` by default.
    is_id: whether it is the id of a token, below `vocab_size`.
    per_label: whether it has a number for each label.
    only_for: by the name of another field, the values of that field with which this one may differ
    from its default, or, if `value` is given, have this value.
    """
    if type(default) is int:
        rules = {"between": SIZE} | rules
    return field(default=default, metadata={"help": text, **rules})


def flag(text: str, default: Any = None, **rules: object) -> Any:
    """Return a field as `described` does, which is also a flag of the commands, with this help."""
    return described(text, default, is_flag=True, **rules)


class CheckedConfig(PreTrainedConfig):
    """A config that refuses misspelt fields and numbers that no model can have."""

    # Read by transformers.
    bos_token_id = sep_token_id = None
    # The pipeline of the installed package, which needs no code of a checkpoint.
    registered_task = ""

    def __init_subclass__(cls, *args: Any, **kwargs: Any) -> None:
        """Describe the fields in the docstring."""
        super().__init_subclass__(*args, **kwargs)
        lines = [
            f"    {entry.name}: {entry.metadata['help']} Default: {entry.default!r}."
            for entry in fields(cls)
            if entry.metadata
        ]
        cls.__doc__ = "\n".join([f"{cls.__doc__}", "    Fields:", *lines])

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse misspelt names; leave out the pipeline that the package has."""
        names = [entry.name for entry in fields(self)]
        for name in kwargs:
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
            if close and not hasattr(type(self), name):
                raise TypeError(f"there is no field {name!r}; did you mean {close[0]!r}?")
        (kwargs.get("custom_pipelines") or {}).pop(self.registered_task, None)
        super().__post_init__(**kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        # Before transformers makes a name for each.
        if name == "num_labels" and value not in range(1, MAX_NUM_LABELS + 1):
            raise ValueError(
                f"num_labels is {value!r}; give an integer from 1 to {MAX_NUM_LABELS}, or id2label"
            )
        super().__setattr__(name, value)

    def validate_fields(self) -> None:
        """Refuse what the declaration of a field does not allow; `strict` calls this."""
        for entry in fields(self):
            rules: Any = entry.metadata
            value = getattr(self, entry.name)
            if value is None:
                continue
            if rules.get("is_id"):
                rules = {"between": (0, getattr(self, "vocab_size", MAX_VOCAB_SIZE) - 1)}
            numbers = value if isinstance(value, list | tuple) else [value]
            if rules.get("per_label") and len(numbers) != self.num_labels:
                raise ValueError(
                    f"{entry.name} is {value!r:.200}; it must be None or have one number for each "
                    f"of {self.num_labels} labels"
                )
            if "between" in rules:
                least, most = rules["between"]
                if not (numbers and all(least <= number <= most for number in numbers)):
                    raise ValueError(
                        f"{entry.name} is {value!r:.200}; it must be from {least} to {most}"
                    )
            is_meant = value == rules["value"] if "value" in rules else value != entry.default
            for name, allowed in rules.get("only_for", {}).items():
                actual = getattr(self, name)
                if is_meant and actual not in allowed:
                    raise ValueError(
                        f"{entry.name} is {value!r:.200}, but {name} is {actual!r}; it must be in "
                        f"{allowed}, or {entry.name} must be {entry.default!r}"
                    )
