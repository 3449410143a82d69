"""Metrics of predictions against the true answers: pure functions with intervals and chance levels."""
