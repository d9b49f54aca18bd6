"""From flags and recipes to a run: model, trainer, checkpoints, card. A run asks its task."""

from .run import run
from .task import Task
from .trainer import SelfAttentiveTrainer

__all__ = ["SelfAttentiveTrainer", "Task", "run"]
