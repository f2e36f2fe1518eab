"""Records as Parquet files in a folder for each day (UTC), of which the old ones are removed."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from coad.data.atomic import written_whole
from coad.exceptions import InputError
from coad.live.outputs.records import chosen
from coad.live.protocols import OutputError, Record

__all__ = ["ParquetDays"]

#: Files of a day that are put together into one: readers are slow with thousands of small ones.
_MOST_PARTS = 64
_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "kind": pa.string(),
        "key": pa.string(),
        "station": pa.string(),
        "time": pa.timestamp("ns", tz="UTC"),
        "body": pa.string(),  # JSON: its fields differ from kind to kind
    }
)


@dataclass(frozen=True)
class ParquetDaysSettings:
    """Keys of ``[[output]]`` with ``kind = "parquet"``."""

    folder: str
    kinds: list[str] = field(default_factory=list)  # none: all but heartbeats
    keep_days: int = 400  # a little more than a year


class ParquetDays:
    """Writes ``folder/day=2026-03-09/00000000012.parquet``; a day without new records for ``keep_days`` is removed."""

    Settings: ClassVar[type] = ParquetDaysSettings
    name = "parquet"

    def __init__(self, settings: ParquetDaysSettings) -> None:
        if settings.keep_days < 1:
            raise InputError(f"keep_days must be 1 or more, not {settings.keep_days}")
        self.settings = settings
        self._folder = Path(settings.folder)
        self._cleaned: date | None = None

    def write(self, records: Sequence[Record]) -> None:
        """Write a file for each day; the same records again replace or join what is there, by id and key."""
        days: defaultdict[str, list[Record]] = defaultdict(list)
        for one in chosen(records, self.settings.kinds):
            days[datetime.fromtimestamp(one.time // 10**9, UTC).date().isoformat()].append(one)
        try:
            for day, of_day in days.items():
                self._add(self._folder / f"day={day}", of_day)
            self._remove_old()
        except (OSError, pa.ArrowException) as error:
            raise OutputError(f"cannot write to {self._folder}: {error}") from error

    def close(self) -> None:
        """Nothing stays open."""

    def _add(self, folder: Path, records: Sequence[Record]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        parts = sorted(folder.glob("[0-9]*.parquet"))
        first = records[0].id
        # After a crash the same records come again, perhaps with others: what overlaps with them is put together.
        old = [part for part in parts if int(part.stem) >= first]
        if len(parts) >= _MOST_PARTS:
            old, first = parts, min(first, int(parts[0].stem))
        table = pa.concat_tables([*(pq.ParquetFile(part).read() for part in old), _table(records)])
        pairs = zip(table["id"].to_pylist(), table["key"].to_pylist(), strict=True)
        place = {pair: row for row, pair in enumerate(pairs)}  # the last of those with the same id and key
        target = folder / f"{first:012d}.parquet"
        with written_whole(target) as draft:
            pq.write_table(table.take([place[pair] for pair in sorted(place)]), draft)
        for part in old:
            if part != target:
                part.unlink()

    def _remove_old(self) -> None:
        today = datetime.now(UTC).date()
        if today == self._cleaned:
            return
        for folder in self._folder.glob("day=*"):
            named = re.fullmatch(r"day=(\d{4}-\d{2}-\d{2})", folder.name)
            if named and date.fromisoformat(named[1]) < today - timedelta(days=self.settings.keep_days):
                shutil.rmtree(folder)
        self._cleaned = today


def _table(records: Sequence[Record]) -> pa.Table:
    columns = {name: [getattr(one, name) for one in records] for name in _SCHEMA.names if name != "body"}
    bodies = [json.dumps(dict(one.body), ensure_ascii=False) for one in records]
    return pa.table({**columns, "body": bodies}, schema=_SCHEMA)
