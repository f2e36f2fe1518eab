"""How much memory is free, how long a compressed text is, and refusing what does not fit before any of it is taken."""

from __future__ import annotations

import math
import os
from pathlib import Path

from coad.data.paths import COMPRESSED
from coad.exceptions import InputError

#: While a file becomes pairs, its values are in memory about so many times (2.7 were measured for CSV).
_COPIES = 3
#: What to do about a file that is too large to be read as a whole.
WHOLE = (
    "give fewer rows at a time, or avoid what needs all rows at once "
    "(--missing interpolate, two sources, --out-of-core never)"
)


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
    """Raise an error if ``size`` bytes of values cannot be read into the free memory.

    >>> refuse_too_large(8e12, "the table 'a.npz'", "store it as Parquet")
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: the table 'a.npz' needs about 24,000.0 GB of memory, and ... GB are free; store it as Parquet
    """
    need, free = _COPIES * size, free_memory()
    if need > free:
        raise InputError(
            f"{what} needs about {need / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free; {advice}"
        )


def text_size(path: Path, limit: float = math.inf) -> int:
    """The bytes of a text, counted after decompression until there are more than ``limit``."""
    import pyarrow as pa

    if path.suffix.lower() not in COMPRESSED:
        return path.stat().st_size
    total = 0
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while total <= limit and (block := stream.read(1 << 20)):
                total += len(block)
    except (pa.ArrowException, OSError):
        pass  # a truncated file is reported when it is read
    return total
