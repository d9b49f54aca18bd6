"""Measuring a model: metrics, reports beside simple models, calibration, records."""
