"""Did these two updates come from one user? Attacks after Orekondy et al., 2020."""
