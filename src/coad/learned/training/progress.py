"""One line on the terminal: what is being done, how far it is, and for how long."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from types import TracebackType
from typing import Any

__all__ = ["Progress"]

#: Seconds of work before the line is shown: less would flicker, more would look as if nothing happened.
AFTER_SECONDS = 0.3

_OUTERMOST: ContextVar[Progress | None] = ContextVar("_OUTERMOST", default=None)


class Progress:
    """Shows a line if ``verbose``, with a bar where the ``total`` is known; thread-safe.

    In the ``with`` block of another one it continues the other's line, so that a fit of several stages has one line.

    >>> with Progress("fitting", verbose=False), Progress("training", 10) as bar:
    ...     bar.advance(1, "F̂ 0.5")
    """

    def __init__(self, what: str, total: int | None = None, *, verbose: bool = False) -> None:
        self.what, self.total, self.verbose = what, total, verbose
        self._done, self._text = 0, ""
        self._outer: Progress | None = None
        self._shown: Progress = self  # of the stages within this one, the one under way
        self._line: Any = None
        self._lock = threading.RLock()

    def __enter__(self) -> Progress:
        self._outer = _OUTERMOST.get()
        if self._outer is not None:
            self._before, self._outer._shown = self._outer._shown, self
            self._outer._draw(at_once=True)
            return self
        self._token = _OUTERMOST.set(self)
        if self.verbose:
            self._timer = threading.Timer(AFTER_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outer is not None:
            self._outer._shown = self._before
            self._outer._draw()
            return
        _OUTERMOST.reset(self._token)
        with self._lock:
            if self.verbose:
                self._timer.cancel()
            self.verbose = False
            if self._line is not None:
                self._line.stop()

    def advance(self, by: int, text: str = "") -> None:
        """Another ``by`` of the total are done; ``text`` is shown beside the bar."""
        line = self._outer or self
        with line._lock:
            self._done += by
            self._text = text
            line._draw()

    def _show(self) -> None:
        """Begin to show the line, which then moves by itself; in a thread of its own."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        with self._lock:
            if not self.verbose:
                return
            self._line = RichProgress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[text]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._line.add_task(self.what, total=None, text="")
            self._draw()
            self._line.start()

    def _draw(self, *, at_once: bool = False) -> None:
        """Show the stage under way; ``at_once``, so that a short stage is seen too."""
        with self._lock:
            if self._line is not None:
                now = self._shown
                task = self._line.tasks[0]
                task.total = now.total  # rich's own update cannot set None again
                self._line.update(
                    self._task, completed=now._done, description=now.what, text=now._text, refresh=at_once
                )
