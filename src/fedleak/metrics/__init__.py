"""Metrics of predictions against the right answers: pure functions with intervals and chance levels."""
