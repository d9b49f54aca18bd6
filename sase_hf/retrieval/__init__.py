"""Ranking: embedded documents for queries.

May import `models`, `utils`, `data`, `evaluation`, `visualization` and `embedding`.
"""
