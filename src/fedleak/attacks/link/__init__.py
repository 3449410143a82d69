"""Which anonymous updates come from one device."""
