"""Ranking: embedded documents for queries."""
