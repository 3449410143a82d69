"""Did these two updates come from one person? Attacks after Orekondy et al., 2020."""
