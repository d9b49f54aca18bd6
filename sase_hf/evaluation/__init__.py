"""Measuring a model: metrics, records, attention statistics, faithfulness.

May import `models`, `utils` and `data`.
"""
