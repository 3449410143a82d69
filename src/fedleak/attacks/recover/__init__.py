"""Which training examples can be read out of what clients send."""
