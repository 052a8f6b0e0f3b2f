"""Residual schemes: how a transformer carries information through depth."""
