"""What scripts/leaderboard.py compares: the systems, their measured runs, the table and plot."""
