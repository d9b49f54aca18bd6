"""Flags and recipes -> a run: model, trainer, checkpoints, card.

May import everything but `serving` and `embedding`.
"""
