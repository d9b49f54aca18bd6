"""The model families. Beside every checkpoint lie the files that its modeling file imports."""

import transformers as _transformers  # noqa: F401 (before a file here: its import registers them)

from .families import FAMILIES, RETRIEVAL, Family
from .modeling_self_attentive import row_scores, unit_rows

__all__ = [
    "FAMILIES",
    "RETRIEVAL",
    "Family",
    "row_scores",
    "unit_rows",
]
