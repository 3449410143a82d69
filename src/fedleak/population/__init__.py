"""Who takes part: users, their examples, and what of it the adversary already knows."""
