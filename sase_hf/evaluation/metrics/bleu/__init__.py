"""One module for `evaluate.load`, which copies this folder file by file."""
