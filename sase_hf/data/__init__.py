"""From files and Hub datasets to rows, labels, tokenizers, word vectors and batches.

May import `models` and `utils`.
"""
