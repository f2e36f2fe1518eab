"""How a long experiment reports its progress: by calling a function with one line of text."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str], None]


def silent(line: str) -> None:
    """Discard the line: the default where no progress is wanted."""
