"""Which clients hold data that fits a profile? Attacks after Orekondy et al., 2020."""
