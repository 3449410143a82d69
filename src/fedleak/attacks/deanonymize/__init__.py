"""Who sent this update? (Orekondy et al., 2020)"""
