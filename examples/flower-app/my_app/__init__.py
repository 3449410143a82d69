"""Twenty people teach a model to read signs, each in a handwriting of their own."""
