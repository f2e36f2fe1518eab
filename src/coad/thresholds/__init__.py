"""The categorical mode: exact label-free thresholds for two scores, curves, and tables larger than memory."""
