"""What a watch says of itself: one JSON object a line on standard error, for the journal of the system."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonFormatter", "log_lines"]


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON.

    >>> record = logging.LogRecord("coad.live", logging.INFO, "", 0, "watching %s", ("run",), None)
    >>> record.created = 0.0
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "logger": "coad.live", "message": "watching run"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def log_lines() -> None:
    """Write the log of coad to standard error as lines of JSON; a program that set up logging keeps its own."""
    logger = logging.getLogger("coad")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter())
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
