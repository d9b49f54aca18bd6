"""Measuring a model: metrics, simple models beside it, calibration, records."""
