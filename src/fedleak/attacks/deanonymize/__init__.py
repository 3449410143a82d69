"""Who sent this update? Attacks after Orekondy et al., 2020."""
