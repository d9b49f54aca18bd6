"""Publishing on the Hub: model card, list of public files, push."""

from .card import model_card, write_model_card
from .push import Push, push

__all__ = ["Push", "model_card", "push", "write_model_card"]
