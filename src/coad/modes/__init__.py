"""Coincident modes: every regime and every rare kind at once."""
