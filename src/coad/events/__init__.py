"""Flagged rows as events with a start and an end; why they were flagged; what kind they are."""
