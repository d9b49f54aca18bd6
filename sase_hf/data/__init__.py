"""Files and datasets of the Hub -> rows, labels, tokenizers, word vectors, batches.

May import `models` and `utils`.
"""
