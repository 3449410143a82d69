"""Attacks: a view, prior knowledge and questions in, claims out."""
