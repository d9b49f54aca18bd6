"""Embeddings of texts, and embedded documents ranked for queries."""
