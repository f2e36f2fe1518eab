"""Arithmetic: the metric, the exact search, chance, inference and theory. No files, no torch."""
