"""Metrics as `evaluate` modules that need no download.

Each folder is what `evaluate.load` takes; `records.load_metrics` finds them by name.
"""
