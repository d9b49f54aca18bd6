"""Publishing on the Hub: model card, list of public files, push."""

from .card import model_card, write_model_card
from .push import Push, create_repository, push

__all__ = ["Push", "create_repository", "model_card", "push", "write_model_card"]
