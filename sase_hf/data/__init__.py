"""From files and Hub datasets to rows, labels, tokenizers, word vectors and batches.

May import `models` and `utils`. The files that read rows import neither torch nor transformers: a
file is looked at before these, which take seconds.
"""
