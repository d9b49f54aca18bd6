"""Labels, sets of labels or numbers: the task, the calibration after it, and the report."""

from .task import LabelTask

__all__ = ["LabelTask"]
