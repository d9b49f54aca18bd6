"""The mains of `sase_hf NAME`, a file for each command; `sase_hf NAME` call them in a clone.

May import everything else in the package.
"""
