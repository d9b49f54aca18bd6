"""Attention in a notebook: an object that shows itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .attended_text import Result
from .page import attention_fragment
from .terminal import attention_text


@dataclass(frozen=True, repr=False)
class Attention:
    """Results of the `self-attention` pipeline that a notebook shows as a picture.

    Write `Attention(explain("The soup was good."))` as the last line of a cell. Elsewhere it prints
    as `attention_text` does.

    Attributes:
        results: The results of the pipeline for one input or for several.
    """

    results: Result | Sequence[Result]

    def _repr_html_(self) -> str:
        return attention_fragment(self.results)

    def __repr__(self) -> str:
        several = [self.results] if isinstance(self.results, Mapping) else self.results
        return "\n".join(f"{one['label']}: {attention_text(one, color=False)}" for one in several)
