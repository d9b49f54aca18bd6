"""What scripts/study.py runs, where its results lie, and what is made of them."""
