"""The tasks of a model: labels (a folder), ranking and translation.

May import everything but `serving` and `commands`; `training` knows no task by name.
"""

from ..training import Task
from .encoder import RetrievalTask
from .labels import LabelTask
from .translation import TranslationTask

__all__ = ["TASKS", "LabelTask", "RetrievalTask", "TranslationTask"]

# The class of each value of `--task`.
TASKS: dict[str, type[Task]] = {
    "labels": LabelTask,
    "nli": LabelTask,
    "retrieval": RetrievalTask,
    "translation": TranslationTask,
}
