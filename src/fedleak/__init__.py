"""Fedleak audits what a federated learning run gives away about the people in it, and what stopping that costs."""

__version__ = "0.1.0"
