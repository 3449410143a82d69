"""Attacks that recover what single clients sent from sums over clients."""
