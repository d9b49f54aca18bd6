"""Ranking: embedded documents for queries, queries from texts, translations among sentences.

May import `models`, `utils`, `data`, `evaluation`, `visualization` and `embedding`.
"""
