"""Why a row was flagged: the public names of :mod:`coad.events.explain`."""

from coad.events.explain import Explanation, deletion_test, explain

__all__ = ["Explanation", "deletion_test", "explain"]
