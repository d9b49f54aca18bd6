"""From flags and recipes to a run: model, trainer, checkpoints, card.

May import everything but `serving` and `embedding`.
"""

from .run import run
from .trainer import SelfAttentiveTrainer

__all__ = ["SelfAttentiveTrainer", "run"]
