"""Analyses: why an attack works on a run, and what it needs."""
