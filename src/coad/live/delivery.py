"""Each output in a thread of its own: what fails is tried again, later and later, and holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from coad.live.protocols import Output, Record
from coad.live.store import Store

__all__ = ["Delivery"]

_LOG = logging.getLogger("coad.live")
_RECORDS = 500  # at a time
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds after a failure, doubled each time
_HEARTBEAT = 10.0  # seconds


class Delivery:
    """Hands the lines of the journal to an output, in order, from where it was left.

    Parameters
    ----------
    output
        The output.
    store
        The database; the thread opens a connection of its own.
    """

    def __init__(self, output: Output, store: Store) -> None:
        self.output, self.store = output, store
        self.error = ""
        self._news, self._stop = threading.Event(), threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name=f"coad-output-{output.name}", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> int:
        """How many lines the output has not got yet."""
        return max(0, self.store.last_id() - self.store.sent(self.output.name))

    def news(self) -> None:
        """There are new lines."""
        self._news.set()

    def close(self, patience: float) -> None:
        """Hand over what is left, for at most so many seconds, and end."""
        self._deadline = time.monotonic() + patience
        self._stop.set()
        self._news.set()
        self._thread.join(patience + 5.0)

    def _run(self) -> None:
        sent, pause, beat = self.store.sent(self.output.name), _FIRST_PAUSE, time.monotonic()
        again = self._open_alarms(sent) if getattr(self.output, "stateful", False) else []
        try:
            while True:
                self._news.clear()
                records = again or self.store.journal(sent, _RECORDS)
                if not records and self._stop.is_set():
                    return
                if not records and time.monotonic() - beat > _HEARTBEAT:
                    beat = time.monotonic()
                    records = [Record(sent, "heartbeat", "heartbeat", "", self.store.watermark() or 0)]
                if not records:
                    self._news.wait(1.0)
                    continue
                if self._written(records):
                    again = []
                    pause, sent = _FIRST_PAUSE, max(sent, records[-1].id)
                    if records[-1].kind != "heartbeat":
                        self.store.mark_sent(self.output.name, sent)
                    continue
                if time.monotonic() + pause > self._deadline:
                    return
                self._stop.wait(pause) if not self._stop.is_set() else time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            self._closed()
            self.store.close()

    def _open_alarms(self, number: int) -> list[Record]:
        """The alarms that go on, for an output that shows a state and does not keep it over a restart."""
        return [
            Record(number, "alarm", f"{one['key']}:{one['n']}", one["station"], one["changed"], one)
            for one in self.store.alarms()
            if one["state"] != "cleared"
        ]

    def _written(self, records: list[Record]) -> bool:
        try:
            self.output.write(records)
        except Exception as error:  # whatever an output does, the watch goes on; it is shown and tried again
            if not self.error:
                _LOG.warning("output %s: %s; it is tried again", self.output.name, error)
            self.error = str(error) or type(error).__name__
            return False
        if self.error:
            _LOG.info("output %s works again", self.output.name)
        self.error = ""
        return True

    def _closed(self) -> None:
        try:
            self.output.close()
        except Exception as error:
            _LOG.warning("output %s did not close: %s", self.output.name, error)

    def shown(self) -> dict[str, Any]:
        """Plain values for the page."""
        return {"behind": self.behind, "error": self.error}
