"""The users who take part, their examples, and what the adversary already knows of them."""
