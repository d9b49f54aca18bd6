"""Scores of words: which explain an answer, and which agree with the words that people mark."""
