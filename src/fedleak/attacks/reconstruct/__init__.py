"""What a client's data looks like, told from its updates."""
