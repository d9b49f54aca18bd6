"""A checkpoint in use: ONNX export, predictor, demo page, handler for Inference Endpoints."""
