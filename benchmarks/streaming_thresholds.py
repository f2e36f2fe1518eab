"""The second part of :mod:`benchmarks.streaming` alone: thresholds for a table in passes."""

from benchmarks.streaming import thresholds as run

__all__ = ["run"]
