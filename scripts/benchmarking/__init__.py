"""What scripts/benchmark.py measures, against what, and how."""
