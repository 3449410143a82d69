"""The record of a run on disk, and next to it the truth and the adversary's prior."""
