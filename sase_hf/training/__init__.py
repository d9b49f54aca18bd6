"""From flags and recipes to a run: model, trainer, checkpoints, card.

May import everything but `tasks`, `serving` and `embedding`; a run asks the task that it is given.
"""

from .run import run
from .task import Task
from .trainer import SelfAttentiveTrainer

__all__ = ["SelfAttentiveTrainer", "Task", "run"]
