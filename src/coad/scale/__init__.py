"""Beyond one machine: scores, evaluations and thresholds on Dask, and a model for each of many sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

__all__ = ["score"]

if TYPE_CHECKING:
    from coad.scale.scoring import score as score

__getattr__ = lazy_names(__name__, {"score": "coad.scale.scoring"})
