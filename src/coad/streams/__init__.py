"""Streams beyond one watcher: the live engine as a keyed, stateful operator on Kafka, and one database of what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

__all__ = [
    "Merge",
    "Operator",
    "Pieces",
    "StreamConfig",
    "collect",
    "publish",
    "read_message",
    "work",
    "write_message",
]

if TYPE_CHECKING:
    from coad.streams.collect import collect as collect
    from coad.streams.config import StreamConfig as StreamConfig
    from coad.streams.merge import Merge as Merge
    from coad.streams.messages import read_message as read_message
    from coad.streams.messages import write_message as write_message
    from coad.streams.operator import Operator as Operator
    from coad.streams.operator import Pieces as Pieces
    from coad.streams.publish import publish as publish
    from coad.streams.work import work as work

__getattr__ = lazy_names(
    __name__,
    {
        "Merge": "coad.streams.merge",
        "Operator": "coad.streams.operator",
        "Pieces": "coad.streams.operator",
        "StreamConfig": "coad.streams.config",
        "collect": "coad.streams.collect",
        "publish": "coad.streams.publish",
        "read_message": "coad.streams.messages",
        "work": "coad.streams.work",
        "write_message": "coad.streams.messages",
    },
)
