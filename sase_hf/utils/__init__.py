"""Shared by all folders above it: checkpoints, files, texts, privacy, the frame of commands.

May import `models`.
"""
