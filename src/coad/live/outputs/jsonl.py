"""Records as lines of JSON, added to a file; each once, also after a crash in the middle of a line."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar

from coad.live.outputs.records import as_json, chosen
from coad.live.protocols import OutputError, Record

__all__ = ["JsonLines"]

#: What is looked through for records that a crash made the watch hand over again: more than one batch of them.
_TAIL_BYTES = 2**22


@dataclass(frozen=True)
class JsonLinesSettings:
    """Keys of ``[[output]]`` with ``kind = "jsonl"``."""

    path: str
    kinds: list[str] = field(default_factory=list)  # none: all but heartbeats


class JsonLines:
    """One record a line. What a crash left of a last line is cut off, and no record is written twice."""

    Settings: ClassVar[type] = JsonLinesSettings
    name = "jsonl"

    def __init__(self, settings: JsonLinesSettings) -> None:
        self.settings = settings
        self._path = Path(settings.path)
        self._unsure = True  # what the last write has left in the file

    def write(self, records: Sequence[Record]) -> None:
        """Add the records that the file does not have."""
        new = chosen(records, self.settings.kinds)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                if self._unsure:
                    known = _repair(file)
                    new = [one for one in new if (one.id, one.key) not in known]
                self._unsure = True
                file.write("".join(as_json(one) + "\n" for one in new).encode())
                file.flush()
                self._unsure = False
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Nothing stays open."""


def _repair(file: BinaryIO) -> set[tuple[int, str]]:
    """Cut off the half of a last line, and say which records the last lines hold."""
    size = file.seek(0, os.SEEK_END)
    start = max(size - _TAIL_BYTES, 0)
    file.seek(start)
    tail = file.read(size - start)
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail):
        file.truncate(start + whole)
    known = set()
    for line in tail[:whole].splitlines()[1 if start else 0 :]:
        with suppress(ValueError, TypeError, KeyError):  # a line that is not ours
            said = json.loads(line)
            known.add((said["id"], said["key"]))
    return known
