"""The training rows that a classifier keeps: how unlike them a text is, and which are nearest."""
