"""Other anomaly detection methods behind one interface, for comparison.

A method of one input has ``fit(x)`` and ``score(x)`` (high = anomalous) and is run on s, on q and on
both inputs stacked; a method of two inputs has ``fit(s, q)`` and ``scores(s, q)``. The names are in
:data:`coad.research.baselines.registry.METHODS`; :mod:`coad.research.baselines.strategies` evaluates them.
"""
