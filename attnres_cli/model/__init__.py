"""The decoder-only trunk that every residual scheme runs on. Knows no scheme by name."""
