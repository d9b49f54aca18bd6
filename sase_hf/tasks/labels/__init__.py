"""Labels, sets of labels or numbers: the task, the calibration after it, and the report."""

from .task import LabelRunArguments, LabelTask, ModelArguments

__all__ = ["LabelRunArguments", "LabelTask", "ModelArguments"]
