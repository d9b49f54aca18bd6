"""The folder of one `evaluate` module, which `evaluate.load` copies file by file."""
