"""A checkpoint in use: ONNX export and its predictor, demo page.

May import everything but `training` and `embedding`.
"""
