"""Detectors of two inputs where one table is asked for: scikit-learn's tools, and PyOD's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

if TYPE_CHECKING:
    from coad.adapters.columns import ColumnDetector
    from coad.adapters.pyod import PyODDetector

__all__ = ["ColumnDetector", "PyODDetector"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {"ColumnDetector": "coad.adapters.columns", "PyODDetector": "coad.adapters.pyod"},
    )
