"""Traces that attacks are held to: one with a planted leak, and one in which there is nothing to find."""
