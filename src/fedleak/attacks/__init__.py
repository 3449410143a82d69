"""Attacks: a view, a prior and questions in, predictions out."""
