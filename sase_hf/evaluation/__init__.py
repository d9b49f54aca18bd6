"""Reading texts with a model, and measuring it: metrics, simple models, calibration, records."""
