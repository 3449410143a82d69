"""Plans: TOML files, checked key by key, turned into frozen dataclasses."""
