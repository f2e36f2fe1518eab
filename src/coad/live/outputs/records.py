"""What outputs share: which records they take, and how a record is written as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from coad.live.protocols import Record

__all__ = ["as_json", "chosen"]


def chosen(records: Iterable[Record], kinds: Sequence[str]) -> list[Record]:
    """The records of these kinds; where none is named, all but the heartbeats, which no log needs.

    >>> [one.id for one in chosen([Record(1, "event", "a", "K01", 0), Record(2, "alarm", "b", "K01", 0)], ["alarm"])]
    [2]
    """
    return [one for one in records if (one.kind in kinds if kinds else one.kind != "heartbeat")]


def as_json(record: Record) -> str:
    """A record as one line of JSON.

    >>> as_json(Record(7, "event", "a1", "K01", 10, {"score": 0.5}))
    '{"id": 7, "kind": "event", "key": "a1", "station": "K01", "time": 10, "body": {"score": 0.5}}'
    """
    return json.dumps(
        {name: getattr(record, name) for name in ("id", "kind", "key", "station", "time")}
        | {"body": dict(record.body)},
        ensure_ascii=False,
    )
