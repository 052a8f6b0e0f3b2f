"""Headless tables, charts and documents, and the renderers that turn them into text. Imports no torch."""
