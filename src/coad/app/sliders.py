"""The positions of the explorer's sliders: finer than a hand moves them."""

from __future__ import annotations

import math

import numpy as np

from coad._typing import FloatArray

__all__ = ["SLIDER_BETAS", "slider"]

_STEPS = 400
SLIDER_BETAS = [0.0, *(float(f"{beta:.3g}") for beta in np.geomspace(0.01, 100, 79)), math.inf]


def slider(p: FloatArray) -> list[float]:
    """Thresholds that flag from half of the pairs down to one, in logarithmic steps."""
    falling = np.sort(p)[::-1]
    n = len(falling)
    count = np.geomspace(max(1, n // 2), 1, _STEPS + 1)
    return [float(one) for one in falling[np.round(count).astype(np.int64) - 1]]
