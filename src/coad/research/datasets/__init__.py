"""Simulated data, and loaders of public data."""
