"""The parts of scripts/lab/benchmark.py: models, texts, times and tables."""
