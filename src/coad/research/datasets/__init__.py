"""Makers of simulated data, and loaders of public data."""
