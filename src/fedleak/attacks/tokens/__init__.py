"""Attacks on the game `tokens`."""
