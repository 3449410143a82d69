"""The record of a run on disk, and beside it the truth and the adversary's prior knowledge."""
