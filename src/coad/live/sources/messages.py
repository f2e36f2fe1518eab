"""Messages of brokers: a plain number, or a JSON object with one or more samples."""

from __future__ import annotations

import json
from collections import Counter

from coad.live.protocols import Wanted
from coad.live.sources.samples import make_chunks
from coad.live.values import Chunk

__all__ = ["read_message"]

#: A message that is longer is no message but a mistake; brokers refuse such sizes by default, too.
_LONGEST = 8 * 2**20


def read_message(
    payload: bytes | bytearray | str | None,
    wanted: Wanted,
    counts: Counter[str],
    *,
    arrived: int,
    stream: str | None = None,
    column: str | None = None,
    stream_key: str = "stream",
) -> list[Chunk]:
    """The samples of a message; a message that cannot be read is counted as malformed.

    Parameters
    ----------
    payload
        ``99.8``; ``{"time": 1773050400.5, "amplitude": 99.8}``; or lists for several samples:
        ``{"time": [..], "amplitude": [..]}``. The time is an epoch time (s, ms, µs or ns) or ISO 8601 text.
    wanted, counts
        What the model needs; the counts of the source.
    arrived
        Time of samples that have none, in nanoseconds.
    stream, column
        What the topic says of them; a plain number needs its column.
    stream_key
        Key of the object that has the stream, if the topic does not say it.

    Returns
    -------
    list of Chunk

    >>> counts = Counter()
    >>> wanted = Wanted({"K01": ("amplitude",)})
    >>> read_message(b"99.8", wanted, counts, arrived=5, stream="K01", column="amplitude")[0].columns
    {'amplitude': array([99.8])}
    >>> read_message(b"{half", wanted, counts, arrived=5), counts["malformed"]
    ([], 1)
    """
    counts["received"] += 1
    try:
        if payload is None or len(payload) > _LONGEST:
            raise ValueError("an empty message, or a longer one than any")
        said = json.loads(payload)
        if not isinstance(said, dict):
            if column is None or isinstance(said, (list, str)):
                raise ValueError("a plain number needs a column")
            said = {column: said}
        named = said.pop(stream_key, None) if stream is None else stream
        if not (named is None or isinstance(named, str)):
            raise ValueError("a stream is named by text")
        time = said.pop(wanted.time or "time", arrived)
        many = any(isinstance(one, list) for one in said.values())
        if many and not isinstance(time, list):
            raise ValueError("several samples need their times")
        if any(isinstance(one, dict) for one in said.values()):
            raise ValueError("an object is no sample")
        times = time if isinstance(time, list) else [time]
        columns = {name: one if isinstance(one, list) else [one] * len(times) for name, one in said.items()}
        return make_chunks(wanted, counts, times, columns, stream=named) if times else []
    except (ValueError, TypeError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        counts["malformed"] += 1
        return []
