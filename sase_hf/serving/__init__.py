"""A checkpoint in use: ONNX export and its predictor, demo page, handler for Inference Endpoints.

May import everything but `training` and `embedding`.
"""
