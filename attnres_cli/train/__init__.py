"""Training: one loop, honest clocks, exact resume. Writes only into the run's directory."""
