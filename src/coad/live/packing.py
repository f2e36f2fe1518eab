"""The state of the engine as plain values and arrays, and as bytes: JSON and safetensors, no pickle."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from coad.live.grouping import Grouping
from coad.live.joining import Witness
from coad.live.ordering import Ordering, Rows
from coad.live.refusals import Refusals
from coad.live.runs import EventRuns
from coad.live.selection import Gating, Triggering
from coad.live.station import Station
from coad.live.values import Chunk, Event, Refusal

__all__ = ["chunk_from_plain", "chunk_to_plain", "from_bytes", "restored", "to_bytes", "to_plain"]

#: What each part of the engine remembers; the rest of its fields are settings.
_STATE: dict[type, tuple[str, ...]] = {
    Station: (
        "samples", "refused", "gating", "triggering", "runs", "waiting", "kept", "offset", "n_rows", "segment",
    ),
    Ordering: (
        "waiting", "aside", "recent", "released", "newest", "set_back", "restarted", "counts", "kinds", "late",
    ),
    Witness: ("rows", "known_until"),
    Grouping: ("groups",),
    Refusals: ("open", "changed"),
    EventRuns: ("running", "last", "group", "steps"),
    Gating: ("last",),
    Triggering: ("before", "block", "centre", "scale", "last"),
}  # fmt: skip


def to_plain(value: Any) -> Any:
    """Dictionaries, lists, arrays, numbers, text and None that stand for the value.

    >>> to_plain({"n": np.int64(3), "rows": Rows.none(("a",))})["n"]
    3
    """
    if type(value) in _STATE:
        return {name: to_plain(getattr(value, name)) for name in _STATE[type(value)]}
    if isinstance(value, Rows):
        return {"#": "rows", "time": value.time, "columns": value.columns, "restarted": value.restarted}
    if isinstance(value, (Event, Refusal)):
        return {"#": type(value).__name__, **to_plain(asdict(value))}
    if isinstance(value, dict):
        return {str(key): to_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def restored(now: Any, plain: Any) -> Any:
    """The value that :func:`to_plain` described; ``now`` is the fresh one in its place, with its settings."""
    if type(now) in _STATE and plain is not None:
        for name in _STATE[type(now)]:
            setattr(now, name, restored(getattr(now, name), plain[name]))
        return now
    if isinstance(plain, dict):
        kind = plain.get("#")
        rest = {name: one for name, one in plain.items() if name != "#"}
        if kind == "rows":
            return Rows(**rest)
        if kind == "Refusal":
            return Refusal(**rest)
        if kind == "Event":
            return Event(**{**rest, "stations": tuple(rest["stations"])})
        fresh = now if isinstance(now, dict) else {}
        values = {name: restored(fresh.get(name), one) for name, one in rest.items()}
        return Counter(values) if isinstance(now, Counter) else values
    if isinstance(plain, list):
        return [restored(None, one) for one in plain]
    return plain


def chunk_to_plain(chunk: Chunk) -> dict[str, Any]:
    """A chunk as plain values."""
    columns = {name: np.asarray(one) for name, one in chunk.columns.items()}
    return {"stream": chunk.stream, "time": chunk.time, "columns": columns, "position": chunk.position}


def chunk_from_plain(plain: dict[str, Any]) -> Chunk:
    """The inverse of :func:`chunk_to_plain`."""
    return Chunk(**plain)


def to_bytes(plain: Any) -> bytes:
    """Plain values and arrays as bytes.

    >>> from_bytes(to_bytes({"a": np.arange(2), "b": [1, None, "x"]}))
    {'a': array([0, 1]), 'b': [1, None, 'x']}
    """
    arrays: dict[str, NDArray[Any]] = {}

    def outline(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "biuf":
                arrays[f"a{len(arrays)}"] = np.ascontiguousarray(value)
                return {"#array": f"a{len(arrays) - 1}"}
            return {"#text": value.astype(str).tolist(), "dtype": value.dtype.str}
        if isinstance(value, dict):
            return {name: outline(one) for name, one in value.items()}
        return [outline(one) for one in value] if isinstance(value, (list, tuple)) else value

    text = json.dumps(outline(plain), allow_nan=True).encode()
    saved: bytes = save_tensors({**arrays, "json": np.frombuffer(text, dtype=np.uint8)})
    return saved


def from_bytes(data: bytes) -> Any:
    """The inverse of :func:`to_bytes`."""
    arrays = load_tensors(data)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if "#array" in value:
                return arrays[value["#array"]]
            if "#text" in value:
                return np.array(value["#text"]).astype(value["dtype"])
            return {name: filled(one) for name, one in value.items()}
        return [filled(one) for one in value] if isinstance(value, list) else value

    return filled(json.loads(arrays["json"].tobytes()))
