"""Attacks on the game `membership`."""
