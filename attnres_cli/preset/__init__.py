"""Presets: what a run is made of, read from TOML. This room imports nothing of the rest."""
