"""What every other folder needs: loading checkpoints, processes, memory.

May import `models`.
"""
