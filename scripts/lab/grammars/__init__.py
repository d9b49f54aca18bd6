"""The grammars of scripts/lab/synthetic_corpus.py: reviews, and pairs of sentences."""
