"""From flags and recipes to a run: model, trainer, checkpoints, card. A run asks its task."""

from .run import run
from .task import AnyTask, Task
from .trainer import SelfAttentiveTrainer

__all__ = ["AnyTask", "SelfAttentiveTrainer", "Task", "run"]
