"""A checkpoint in use: ONNX export, its predictor, and the model in one HTML file."""
