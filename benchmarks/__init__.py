"""Measurements that back what the project promises; ``python -m benchmarks`` runs them all."""
