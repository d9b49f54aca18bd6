"""A checkpoint in use: ONNX export and its predictor, demo page, handler for Inference Endpoints.

May import every folder but `training`, `tasks` and `embedding`.
"""
