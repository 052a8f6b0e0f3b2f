"""Run directories: what training leaves behind and reporting reads. Imports no torch."""
