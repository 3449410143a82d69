"""Traces of the attack contract: with a planted leak, and with nothing to find."""
