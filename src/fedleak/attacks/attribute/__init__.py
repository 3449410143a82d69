"""Which group does the sender of this update belong to? Attacks after Melis et al., 2019, and Orekondy et al., 2020."""
