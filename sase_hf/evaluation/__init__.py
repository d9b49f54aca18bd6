"""Measuring a model: metrics, records, attention statistics, faithfulness."""
