"""The model families. Beside every checkpoint lie the files that its modeling file imports."""

import transformers as _transformers  # noqa: F401 (before a file here: its import registers them)

from .checkpoint import CHECKSUMS_NAME
from .families import FAMILIES, RETRIEVAL, Family
from .modeling_self_attentive import row_scores, unit_rows
from .pipeline_rnnsearch import TASK as TRANSLATION_TASK

__all__ = [
    "CHECKSUMS_NAME",
    "FAMILIES",
    "RETRIEVAL",
    "TRANSLATION_TASK",
    "Family",
    "row_scores",
    "unit_rows",
]
