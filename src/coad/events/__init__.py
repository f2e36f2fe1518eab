"""Events: runs of flagged rows, explanations of why they were flagged, and kinds of events."""
