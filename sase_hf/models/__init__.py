"""The model families. Each folder travels: its files are copied beside every checkpoint.

They import torch, transformers, huggingface_hub, the standard library and each other, the last only
as `from .name import Thing`.
"""
