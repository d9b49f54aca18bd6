"""The parts of scripts/lab/benchmark.py: models, texts and times."""
