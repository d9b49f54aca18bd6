"""The tasks of a model: labels (a folder), ranking and translation.

May import everything but `serving` and `embedding`; `training` knows no task by name.
"""

from .labels import LabelTask
from .retrieval import RetrievalTask
from .translation import TranslationTask

__all__ = ["LabelTask", "RetrievalTask", "TranslationTask"]
