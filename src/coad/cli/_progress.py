"""A line that says how far a command is: only on a terminal, and only if it takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coad.learned.training.progress import Progress


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows done so far."""
    seen = 0
    with Progress(what, total, verbose=on_terminal()) as line:

        def advance(done: int) -> None:
            nonlocal seen
            line.advance(done - seen, f"{done:,} rows")
            seen = done

        yield advance
