"""Rows: the real tokens of each text at the left end of its row, and the way there and back.

Shapes: B texts, T tokens as they came, S tokens of the longest text, at least 1.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.utils.import_utils import is_tracing

# On a CPU, a batch is read in parts of texts of like length. Another part costs about as much time
# as this many tokens, and each of its steps as much as this many texts.
TOKENS_FOR_PART = 60
TEXTS_FOR_STEP = 4


def tokens_of_sides(real: Tensor, token_type_ids: Tensor) -> Tensor:
    """Return which real tokens (B, T) are of the first text of a pair and of the second: (B, 2, T).

    Token types are 0 on the first text and 1 on the second, (B, T).
    """
    return torch.stack([token_type_ids == 0, token_type_ids == 1], 1) & real.unsqueeze(1)


def has_values(mask: Tensor, dtype: torch.dtype) -> bool:
    """Return whether rows of a type may depend on the values of a mask: on a CPU, in no graph.

    On an accelerator that would wait for the device, and a traced or compiled graph must not depend
    on them. In half precision oneDNN compiles code for each new number of rows of a product and
    never frees it, so that rows are as long there as they came; autocast decides as the type does.
    """
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
    return mask.device.type == "cpu" and not is_tracing(mask) and dtype.itemsize > 2


def parts_of_like_length(mask: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Return the texts of a batch (B, T) in parts, the longest first, or in a single part."""
    if not has_values(mask, dtype) or mask.shape[0] < 2:
        return (torch.arange(mask.shape[0], device=mask.device),)
    lengths, order = mask.sum(1).sort(descending=True, stable=True)
    return order.split(_sizes_of_parts(lengths.tolist()))


def _sizes_of_parts(lengths: list[int]) -> list[int]:
    """Cut texts, longest first, where that spares most, and so both sides of the cut."""
    most = cut = 0
    for place, longest in enumerate(lengths):
        spared = (lengths[0] - longest) * (len(lengths) - place)
        spared -= TEXTS_FOR_STEP * longest + TOKENS_FOR_PART
        if spared > most:
            most = spared
            cut = place
    if cut == 0:
        return [len(lengths)]
    return _sizes_of_parts(lengths[:cut]) + _sizes_of_parts(lengths[cut:])


class Rows:
    """Where the real tokens of a batch stand, and the rows (B, S) that they are moved to.

    Args:
        mask: True on real tokens, anywhere in a row, shape (B, T).
        dtype: The precision of what is moved.
        limit: The most real tokens of a text, if that is known.

    Attributes:
        real: True on the real tokens of the rows, shape (B, S).
        is_full: Whether every place is known to hold a real token; then S is T.
    """

    def __init__(
        self, mask: Tensor, dtype: torch.dtype = torch.float32, limit: int | None = None
    ) -> None:
        self.mask = mask
        is_known = has_values(mask, dtype) and len(mask) > 0
        steps = mask.shape[1]
        self.is_full = is_known and steps > 0 and bool(mask.all())
        if self.is_full:
            self.real = mask
            return
        self._lengths = mask.sum(1, keepdim=True)
        if is_known:
            steps = int(self._lengths.max())
        elif limit is not None and not is_tracing(mask):
            steps = min(steps, limit)
        steps = steps if is_tracing(mask) else max(steps, 1)
        self._places = torch.arange(steps, device=mask.device)
        self.real = self._places < self._lengths
        beginning = mask[:, : self.real.shape[1]]
        self._are_left = is_known and torch.equal(beginning, self.real[:, : mask.shape[1]])

    def left(self, x: Tensor) -> Tensor:
        """Move the real tokens to the left, zeros on padding: (B, T, ...) -> (B, S, ...)."""
        if self.is_full:
            return x
        if not self._are_left:
            x = _take(x, self._columns())
        steps = self.real.shape[1]
        if not is_tracing(x):
            x = x[:, :steps]
        if not is_tracing(x) and x.shape[1] < steps:  # no tokens
            x = F.pad(x, [0, 0] * (x.ndim - 2) + [0, steps - x.shape[1]])
        return x.masked_fill(_one_for_all(~self.real, x), 0)

    def back(self, x: Tensor) -> Tensor:
        """Move tokens back where they were, zeros on padding: (B, S, ...) -> (B, T, ...)."""
        if self.is_full:
            return x
        restored = _take(x, (self.mask.cumsum(1) - 1) * self.mask)
        return restored.masked_fill(_one_for_all(~self.mask, restored), 0)

    def mirror(self, x: Tensor) -> Tensor:
        """Read every text backwards, the last token first, and padding after it, (B, S, ...)."""
        if self.is_full:
            return x.flip(1)
        last_first = self._lengths - 1 - self._places
        # A remainder would do the same, but has no ONNX operator for sizes that vary.
        return _take(x, last_first.where(self.real, last_first + x.shape[1]))

    def windows(self, x: Tensor, offsets: Sequence[int]) -> Tensor:
        """Return neighbours of every token in its text, zeros beyond either end.

        An offset is the distance to a neighbour, in tokens, negative before the token:
        (B, S, width) -> (B, S, offsets, width).
        """
        if not self.is_full:
            x = x.masked_fill(~self.real.unsqueeze(-1), 0)
        neighbours = []
        for offset in offsets:
            before = max(-offset, 0)
            after = max(offset, 0)
            with_zeros = F.pad(x, (0, 0, before, after))
            neighbours.append(with_zeros[:, after : after + x.shape[1]])
        return torch.stack(neighbours, 2)

    def _columns(self) -> Tensor:
        """Return where in its row the n-th real token of each text is, 0 after the last."""
        steps = self.mask.shape[1]
        columns = torch.arange(steps, device=self.mask.device).expand_as(self.mask)
        # Padding goes to a column that is cut off. (A stable argsort would do, but has no ONNX
        # operator.)
        ranks = torch.where(self.mask, self.mask.cumsum(1) - 1, steps)
        places = torch.zeros_like(F.pad(ranks, (0, 1)))
        return places.scatter(1, ranks, columns)[:, :steps]


def _one_for_all(mask: Tensor, x: Tensor) -> Tensor:
    """Return a mask (B, N) with as many dimensions as (B, N, ...)."""
    return mask.view(*mask.shape, *[1] * (x.ndim - 2))


def _take(x: Tensor, places: Tensor) -> Tensor:
    """Return the tokens of (B, N, ...) at places (B, K) of their row: (B, K, ...)."""
    first = torch.arange(x.shape[0], device=x.device).unsqueeze(1) * x.shape[1]
    chosen = x.flatten(0, 1).index_select(0, (first + places).flatten())
    return chosen.unflatten(0, tuple(places.shape))
