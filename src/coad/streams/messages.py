"""What travels through Kafka to the operator: samples of about a second, the time, or the end of a recording.

A message is a safetensors file with the metadata ``coad`` (the number of the format), ``kind`` and, for samples, ``stream``.
Samples may also come as JSON, as ``coad watch`` reads it from a broker.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from coad.exceptions import InputError
from coad.live.protocols import Wanted
from coad.live.sources.messages import read_message as read_json
from coad.live.values import Chunk

__all__ = ["FORMAT", "Message", "read_message", "write_message"]

#: Changes when older readers would misread a message.
FORMAT = 1
_COLUMN = "column:"

Kind = Literal["samples", "clock", "end"]


@dataclass(frozen=True)
class Message:
    """Samples; or the time that it is by the clock of the sources; or the end of a recording."""

    kind: Kind
    chunks: tuple[Chunk, ...] = ()
    time: int = 0


def write_message(what: Chunk | int | None) -> bytes:
    """A message as bytes.

    Parameters
    ----------
    what
        Samples of one stream; or a time in nanoseconds; or None for the end of a recording.

    Returns
    -------
    bytes

    >>> samples = Chunk("K01", np.array([10, 20]), {"amplitude": np.array([99.8, 99.7]), "mode": np.array(["a", "b"])})
    >>> chunk = read_message(write_message(samples), Wanted({}, text=frozenset({"mode"}))).chunks[0]
    >>> chunk.stream, chunk.time.tolist(), chunk.columns["mode"].tolist()
    ('K01', [10, 20], ['a', 'b'])
    >>> read_message(write_message(5), Wanted({})).time, read_message(write_message(None), Wanted({})).kind
    (5, 'end')
    """
    if not isinstance(what, Chunk):
        said = {"kind": "end"} if what is None else {"kind": "clock", "time": str(int(what))}
        data: bytes = save_tensors({}, metadata={"coad": str(FORMAT), **said})
        return data
    tensors: dict[str, NDArray[Any]] = {"time": np.ascontiguousarray(what.time, dtype=np.int64)}
    texts: dict[str, list[str]] = {}
    for name, column in what.columns.items():
        values = np.asarray(column)
        if values.dtype.kind in "biuf":
            tensors[f"{_COLUMN}{name}"] = np.ascontiguousarray(values)
        else:
            texts[name] = values.astype(str).tolist()
    said = {"kind": "samples", "stream": what.stream}
    if texts:
        said["text"] = json.dumps(texts)
    saved: bytes = save_tensors(tensors, metadata={"coad": str(FORMAT), **said})
    return saved


def read_message(data: bytes | None, wanted: Wanted, *, arrived: int = 0) -> Message:
    """The inverse of :func:`write_message`; JSON is read as ``coad watch`` does.

    Parameters
    ----------
    data
        The value of a Kafka message.
    wanted
        Which columns the model needs, and which of them may be text.
    arrived
        The time of JSON samples that have none, in nanoseconds.

    Returns
    -------
    Message

    Raises
    ------
    InputError
        If it is neither, or of another format; the words say what is wrong.
    """
    if not data:
        raise InputError("the message is empty")
    # The first eight bytes of a safetensors file are a small number, so that NUL comes before its JSON.
    if data[7:9] != b"\0{":
        return _from_json(data, wanted, arrived)
    said = _metadata(data)
    if "coad" not in said:
        raise InputError('a safetensors file without "coad" in its metadata')
    if said["coad"] != str(FORMAT):
        raise InputError(f"the message has format {said['coad']}, and this coad reads {FORMAT}")
    kind = said.get("kind")
    if kind == "end":
        return Message("end")
    if kind == "clock":
        return Message("clock", time=_time(said))
    if kind != "samples" or "stream" not in said:
        raise InputError('its metadata need a "kind" (samples, clock or end), and samples a "stream"')
    return Message("samples", (_chunk(data, said, wanted),))


def _chunk(data: bytes, said: dict[str, str], wanted: Wanted) -> Chunk:
    try:
        tensors = load_tensors(data)
        texts = json.loads(said.get("text", "{}"))
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"the safetensors file is damaged: {error}") from error
    time = tensors.get("time")
    if time is None or time.dtype != np.int64 or time.ndim != 1:
        raise InputError('samples need a tensor "time" of int64: nanoseconds since 1970')
    columns: dict[str, NDArray[Any]] = {
        name.removeprefix(_COLUMN): values for name, values in tensors.items() if name.startswith(_COLUMN)
    }
    for name in columns.keys() - wanted.text:  # contexts keep their type: 1 and 1.0 are two texts
        columns[name] = columns[name].astype(np.float64, copy=False)
    if not isinstance(texts, dict):
        raise InputError('"text" in the metadata must be an object of lists')
    columns |= {name: np.array(values, dtype=str) for name, values in texts.items() if name in wanted.text}
    wrong = [name for name, values in columns.items() if values.shape[:1] != time.shape]
    if wrong:
        raise InputError(f"column {wrong[0]!r} is not as long as the time")
    return Chunk(said["stream"], time, columns)


def _from_json(data: bytes, wanted: Wanted, arrived: int) -> Message:
    counts: Counter[str] = Counter()
    chunks = read_json(data, wanted, counts, arrived=arrived)
    if not chunks and counts["unknown"]:
        raise InputError("it has no stream and columns that the model knows")
    if not chunks:
        raise InputError("it is neither a safetensors file nor a JSON object of samples")
    return Message("samples", tuple(chunks))


def _metadata(data: bytes) -> dict[str, str]:
    length = int.from_bytes(data[:8], "little")
    try:
        found = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError("the head of the safetensors file is damaged") from error
    return found if isinstance(found, dict) else {}


def _time(said: dict[str, str]) -> int:
    try:
        return int(said["time"])
    except (KeyError, ValueError, TypeError):
        raise InputError('a clock message needs a "time" in nanoseconds') from None
