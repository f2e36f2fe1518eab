"""A progress bar that appears after two seconds of work."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Counts the epochs of all starts; thread-safe; shown only if ``verbose``.

    >>> with Progress(10, verbose=False) as bar:
    ...     bar.advance(1, "F̂ 0.5")
    """

    def __init__(self, total: int, *, verbose: bool, after_seconds: float = 2.0) -> None:
        self.total, self.verbose, self.after = total, verbose, after_seconds
        self._done = 0
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, by: int, text: str) -> None:
        """Another ``by`` epochs are done; ``text`` is shown beside the bar."""
        with self._lock:
            self._done += by
            if not self.verbose or time.monotonic() - self._start < self.after:
                return
            if self._bar is None:
                from rich.console import Console
                from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
                from rich.progress import Progress as RichProgress

                self._bar = RichProgress(
                    TextColumn("training"),
                    BarColumn(),
                    TimeRemainingColumn(),
                    TextColumn("{task.description}"),
                    console=Console(stderr=True),
                    transient=True,
                )
                self._task = self._bar.add_task("", total=self.total)
                self._bar.start()
            self._bar.update(self._task, completed=self._done, description=text)
