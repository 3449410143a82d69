"""Attacks on the game `source`."""
