"""A federation that learns to read digits, each client with two of them."""
