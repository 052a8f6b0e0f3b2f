"""Sequence mixers, one file each, which defines `Mixer(ModelConfig)`."""
