"""Twelve people teach a transformer which topic a sentence has."""
