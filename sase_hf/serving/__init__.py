"""A checkpoint in use: ONNX export, predictor, one HTML file, handler for Inference Endpoints."""
