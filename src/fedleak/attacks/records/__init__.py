"""Attacks on single records: whose secret is this, seen from the global models alone (Yuan et al., 2021)."""
