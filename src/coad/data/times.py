"""Parse times and durations such as ``250ms``, and cut time into blocks.

Times are either ``datetime64[ns]`` (UTC), or float64 for plain numbers, which count as seconds
where a duration is compared with them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coad._typing import FloatArray
from coad.exceptions import InputError

Duration = str | float | int | np.timedelta64

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}

#: Epoch times between 1990 and 2100; the ranges of the units do not overlap.
_EPOCH_START, _EPOCH_END = 631_152_000, 4_102_444_800
_MOST_ROWS = 10**12  # of a window: longer than any table, and small enough for the arithmetic of rows
_NAT = np.iinfo(np.int64).min  # how NumPy stores a missing time
_EPOCH_SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def parse_time(
    values: ArrayLike, *, unit: str | None = None, format: str | None = None, name: str = "time"
) -> NDArray[Any]:
    """Parse times: dates, ISO 8601 text, epoch times or plain numbers.

    Parameters
    ----------
    values : array of shape (n,)
        The times.
    unit : {"s", "ms", "us", "ns", "number"}, optional
        Unit of numeric times: epoch times, or ``"number"`` for plain numbers. By default numbers are
        epoch times if all of them lie between 1990 and 2100 in one of the units.
    format : str, optional
        Format of text, as for ``datetime.strptime``, if it is not ISO 8601; dates stay as they are.
    name : str
        Column name for error messages.

    Returns
    -------
    array
        ``datetime64[ns]`` (UTC), or float64 for plain numbers.

    >>> parse_time(["2020-03-09 10:14:33"])
    array(['2020-03-09T10:14:33.000000000'], dtype='datetime64[ns]')
    >>> parse_time([1583748873, 1583748874])[0]
    np.datetime64('2020-03-09T10:14:33.000000000')
    >>> parse_time([0, 0.5, 1])
    array([0. , 0.5, 1. ])
    >>> parse_time(["9.3.2020 10:14"], format="%d.%m.%Y %H:%M")
    array(['2020-03-09T10:14:00.000000000'], dtype='datetime64[ns]')
    """
    array = np.asarray(values)
    if unit is not None and unit != "number" and unit not in _EPOCH_SCALES:
        raise InputError(f"time unit must be 's', 'ms', 'us', 'ns' or 'number', not {unit!r}")
    if array.ndim != 1:
        raise InputError(f"column {name!r} has {array.ndim} dimensions; time needs one value per row")
    if format is not None and array.dtype.kind in "OUSTiu":
        return _from_format(array, format, name)
    if array.dtype.kind == "M":
        if format is not None and format.startswith("%Y-%d"):
            raise InputError(
                f"column {name!r} was read as year-month-day, not as {format}; write its times in ISO 8601"
            )
        return array.astype("datetime64[ns]")
    if array.dtype.kind in "OUST":
        array = _from_text(array, name)
        if array.dtype.kind == "M":
            return array
    if array.dtype.kind == "m":
        return np.asarray(array.astype("timedelta64[ns]").astype(np.int64) / 1e9)
    if array.dtype.kind not in "iuf":
        raise InputError(f"column {name!r} holds {array.dtype} values, which are not times")
    unit = unit or _guess_unit(array)
    return array.astype(np.float64) if unit == "number" else _from_epoch(array, unit)


def parse_duration(value: Duration, *, name: str = "duration") -> np.timedelta64:
    """Parse a duration.

    Parameters
    ----------
    value : str, number or timedelta64
        ``250ms``, ``1.5s``, ``10min``, ``2h`` or ``1d``; a number is in seconds.
    name : str
        Name of the option for error messages.

    Returns
    -------
    timedelta64[ns]

    >>> parse_duration("250ms"), parse_duration("10min")
    (np.timedelta64(250000000,'ns'), np.timedelta64(600000000000,'ns'))
    """
    if isinstance(value, np.timedelta64):
        nanoseconds = float(value.astype("timedelta64[ns]").astype(np.int64))
    else:
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Zµμ]*)\s*", str(value))
        scale = _UNITS_NS.get(match[2] or "s") if match else None
        if match is None or scale is None:
            raise InputError(f"{name} {value!r} is not a duration; write it like 250ms, 1.5s, 10min or 2h")
        nanoseconds = float(match[1]) * scale
    if nanoseconds >= 2**63:
        raise InputError(f"{name} {_short(value)} is longer than 292 years, the limit of nanosecond times")
    if round(nanoseconds) <= 0:
        raise InputError(f"{name} must be positive, not {value!r}")
    return np.timedelta64(round(nanoseconds), "ns")


def parse_length(value: Duration, *, name: str = "window") -> int | np.timedelta64:
    """Parse a length in rows (``64``) or time (``250ms``).

    >>> parse_length("64"), parse_length("1s")
    (64, np.timedelta64(1000000000,'ns'))
    """
    if isinstance(value, np.timedelta64):
        return parse_duration(value, name=name)
    text = str(value).strip()
    if re.fullmatch(r"-?[0-9]+(\.0*)?", text):
        rows = float(text)
        if not 1 <= rows <= _MOST_ROWS:
            raise InputError(f"{name} must be at least 1 row and at most {_MOST_ROWS:,}, not {_short(text)}")
        return int(rows)
    if re.fullmatch(r"-?[0-9.]+", text):
        raise InputError(f"{name} must be a whole number of rows or a duration like 250ms, not {text}")
    return parse_duration(text, name=name)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 30 else f"{text[:20]}...'"


def format_duration(value: np.timedelta64 | float) -> str:
    """Format a duration.

    >>> format_duration(np.timedelta64(50, "ms")), format_duration(90.0), format_duration(600.0)
    ('50ms', '90s', '10min')
    """
    seconds = float(in_seconds(np.asarray([value]))[0])
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "min", "s", "ms", "us", "ns"):
        amount = seconds * 1e9 / _UNITS_NS[unit]
        if abs(amount) >= 1 and (unit in ("s", "ms", "us", "ns") or amount == round(amount)):
            return f"{amount:.4g}{unit}"
    return f"{seconds * 1e9:.4g}ns"


def context_blocks(time: ArrayLike, block: Duration, *, group: ArrayLike | None = None) -> NDArray[Any]:
    """Number the block of time of each row, as a context for slow drifts.

    Parameters
    ----------
    time : array of shape (n,)
        Time of each row.
    block : duration
        Length of a block. Blocks start at multiples of it since 1970 (or 0, for plain numbers), so the
        block of a row does not depend on the other rows.
    group : array of shape (n,), optional
        Rows of different groups are in different blocks.

    Returns
    -------
    array of shape (n,)
        Integers; text if there are groups.

    >>> context_blocks([0.0, 599.0, 600.0, 1300.0], "10min")
    array([0, 0, 1, 2])
    """
    instants = parse_time(time)
    length = parse_duration(block, name="context block")
    if instants.dtype.kind == "M":
        if np.isnat(instants).any():
            raise InputError("context blocks need a time in every row")
        blocks = instants.astype(np.int64) // int(length.astype(np.int64))
    else:
        blocks = np.floor(instants / in_seconds(np.asarray([length]))[0]).astype(np.int64)
    if group is None:
        return np.asarray(blocks)
    return np.char.add(np.char.add(np.asarray(group).astype(str), " @ "), blocks.astype(str))


def block_start(number: int, block: Duration, *, dates: bool) -> str:
    """When a block of :func:`context_blocks` begins: a date in UTC, or a plain number.

    >>> block_start(2, "10min", dates=True), block_start(2, "10min", dates=False)
    ('1970-01-01 00:20:00', '1200')
    """
    length = parse_duration(block)
    if dates:
        return str(np.datetime64(0, "ns") + number * length)[:19].replace("T", " ")
    return f"{number * in_seconds(np.asarray([length]))[0]:.15g}"


def same_scale(duration: np.timedelta64, time: NDArray[Any]) -> Any:
    """Convert a duration to the unit of the differences of ``time``."""
    return duration if time.dtype.kind == "M" else float(in_seconds(np.asarray([duration]))[0])


def in_seconds(differences: NDArray[Any]) -> FloatArray:
    """Convert differences of times to seconds."""
    if differences.dtype.kind == "m":
        return np.asarray(differences.astype("timedelta64[ns]").astype(np.int64) / 1e9)
    return differences.astype(np.float64)


def in_nanoseconds(
    values: ArrayLike, *, unit: str | None = None, format: str | None = None, name: str = "time"
) -> NDArray[np.int64]:
    """Times as whole nanoseconds since 1970; plain numbers count as seconds. The parameters are those of parse_time.

    >>> in_nanoseconds([0.5, 1.0]), in_nanoseconds(["1970-01-01T00:00:01"])
    (array([ 500000000, 1000000000]), array([1000000000]))
    """
    time = parse_time(values, unit=unit, format=format, name=name)
    if time.dtype.kind == "M":
        return np.asarray(time.view(np.int64))
    if not (np.abs(time) < 2**62 / 1e9).all():  # NaN too
        raise InputError(f"column {name!r} has times that are missing, or too large for nanoseconds")
    return np.asarray(np.round(time * 1e9).astype(np.int64))


def epoch_unit(values: ArrayLike) -> str | None:
    """The guessed unit of numeric times (``"number"`` for plain numbers); None for text and dates.

    >>> epoch_unit([1583748873000]), epoch_unit([0.5, 1.0]), epoch_unit(["2020-03-09"])
    ('ms', 'number', None)
    """
    array = np.asarray(values)
    return _guess_unit(array) if array.dtype.kind in "iuf" else None


def _guess_unit(array: NDArray[Any]) -> str:
    known = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if len(known):
        low, high = float(known.min()), float(known.max())
        for unit, scale in _EPOCH_SCALES.items():
            if low >= _EPOCH_START * scale and high <= _EPOCH_END * scale:
                return unit
    return "number"


def _from_epoch(array: NDArray[Any], unit: str) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array.astype(np.int64).astype(f"datetime64[{unit}]").astype("datetime64[ns]")
    known = np.isfinite(array)
    # Convert whole and fractional parts separately: float64 seconds times 1e9 loses hundreds of nanoseconds.
    whole = np.floor(np.where(known, array, 0.0))
    scale = 10**9 // _EPOCH_SCALES[unit]
    nanoseconds = whole.astype(np.int64) * scale + np.rint(
        (np.where(known, array, 0.0) - whole) * scale
    ).astype(np.int64)
    return np.where(known, nanoseconds.astype("datetime64[ns]"), np.datetime64("NaT", "ns"))


def _from_text(array: NDArray[Any], name: str) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from coad.data.numbers import to_array, to_floats

    words = [
        None if word is None or word != word or not str(word).strip() else str(word).strip()
        for word in array.tolist()
    ]
    text = pa.array(words, pa.string())
    first = next((word for word in words if word is not None), "")
    try:
        return to_floats(pc.cast(text, pa.float64()), name)
    except pa.ArrowInvalid:
        pass
    kind = pa.timestamp("ns", "UTC") if re.search(r"(Z|[+-]\d\d:?\d\d)$", first) else pa.timestamp("ns")
    try:
        stamps = pc.cast(text, kind)
    except pa.ArrowInvalid:
        row = next(
            row for row, word in enumerate(words) if word is not None and not _is_stamp(pc, pa, word, kind)
        )
        raise InputError(
            f"column {name!r} has a time that cannot be read: {words[row]!r} at row {row:,}; "
            "write times like 2020-03-09 10:14:33 or as numbers"
            + (", all with or all without a time zone" if row else "")
        ) from None
    return to_array(stamps, name)


def _from_format(array: NDArray[Any], format: str, name: str) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = ["" if word is None else str(word).strip() for word in array.tolist()]
    if not (
        {"%f", "%z", "%Z"} & {format[i : i + 2] for i in range(len(format))}
    ):  # Arrow is fast, without these
        try:
            stamps = pc.strptime(pa.array([word or None for word in words]), format=format, unit="s")
            return np.array(
                stamps.cast(pa.int64()).fill_null(_NAT).to_pylist(), dtype="datetime64[s]"
            ).astype("datetime64[ns]")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # Python's parser finds the row, or accepts it
    instants = np.full(len(words), np.datetime64("NaT", "ns"))
    for row, word in enumerate(words):
        if not word:
            continue
        try:
            moment = datetime.strptime(word, format)
        except (ValueError, re.error) as error:
            raise InputError(f"column {name!r}, row {row:,}: {error}; see --time-format") from None
        instants[row] = np.datetime64(
            moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        )
    return instants


def _is_stamp(pc: Any, pa: Any, word: str, kind: Any) -> bool:
    try:
        pc.cast(pa.array([word]), kind)
    except pa.ArrowInvalid:
        return False
    return True


def time_text(value: Any) -> str:
    """A time as text: an instant to the millisecond, or a plain number.

    >>> time_text(np.datetime64("2020-03-09T10:14:33.250000000"))
    '2020-03-09 10:14:33.250'
    """
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[ms]")).replace("T", " ")
    return f"{float(value):.6g}" if abs(float(value)) < 1e6 else f"{float(value):.3f}"
