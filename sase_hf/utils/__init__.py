"""Shared by all folders above it: loading checkpoints, writing files, the frame of the scripts.

May import `models`.
"""
