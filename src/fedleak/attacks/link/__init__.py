"""Which anonymous updates come from one client."""
