"""What kind a flagged event is: the public names of :mod:`coad.events.kinds`."""

from coad.events.kinds import NOISE, Kinds, find_kinds

__all__ = ["NOISE", "Kinds", "find_kinds"]
