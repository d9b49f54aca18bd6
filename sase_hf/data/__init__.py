"""From files and Hub datasets to rows, labels, tokenizers, word vectors and batches.

May import `models` and `utils`.
"""

import transformers as _transformers  # noqa: F401 (before a file here: its import registers one)
