"""The mains of `sase_hf NAME`, a file for each command; `scripts/NAME.py` call them in a clone.

May import everything else in the package.
"""
