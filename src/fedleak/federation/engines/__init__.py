"""Ways to execute the clients of a round."""
