"""What one adversary sees of a trace."""
