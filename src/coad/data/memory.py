"""How much memory is free, and refusing what does not fit before any of it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from coad.exceptions import InputError

#: What is kept as a whole may take this share of the free memory, because the next step makes a copy of it.
_SHARE = 0.5


def free_memory() -> float:
    """Free memory in bytes, as reported by the system."""
    try:
        text = Path("/proc/meminfo").read_text()
        return 1024.0 * int(text.split("MemAvailable:")[1].split()[0])
    except (OSError, IndexError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return 4e9


def refuse_too_large(size: float, what: str, advice: str) -> None:
    """Raise an error if ``size`` bytes are more than half of the free memory.

    >>> refuse_too_large(8e12, "the table 'a.npz'", "store it as Parquet")
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: the table 'a.npz' needs 8,000.0 GB of memory, and ... GB are free; store it as Parquet
    """
    if size > _SHARE * (free := free_memory()):
        raise InputError(
            f"{what} needs {size / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free; {advice}"
        )
