"""The report as one HTML file that opens anywhere: what stands on it, its markup, its style and its script."""
