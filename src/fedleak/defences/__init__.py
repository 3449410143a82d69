"""Defences, one file each, acting at the federation's hooks."""
