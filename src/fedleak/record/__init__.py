"""Record a federation that another framework trains: Flower, NVFlare or pfl."""
