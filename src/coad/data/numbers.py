"""Convert Arrow columns to NumPy arrays; errors name the first bad value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coad._typing import FloatArray
from coad.exceptions import InputError

#: NumPy's type of each numeric Arrow type. Arrow's own ``to_pandas_dtype`` needs pandas up to pyarrow 25.
_NUMPY_TYPES = {
    pa.from_numpy_dtype(f"{kind}{bits}"): np.dtype(f"{kind}{bits}")
    for kind in ("int", "uint", "float")
    for bits in (8, 16, 32, 64)
    if (kind, bits) != ("float", 8)
}
#: Words that stand for a missing value in a numeric column of text, in any case: those of spreadsheets and
#: data frames, and the states that plant historians write in place of a reading.
MISSING_WORDS = (
    *("", "-", "--", "---", "?", "na", "n/a", "#na", "#n/a", "nan", "-nan", "null", "none", "nil", "missing"),
    *("#value!", "#ref!", "#div/0!", "#num!", "#name?", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    *("bad", "bad input", "bad data", "bad quality", "no data", "nodata", "no sample", "no result", "error"),
    *("i/o timeout", "timeout", "comm fail", "not connect", "not connected", "offline", "shutdown"),
    *("scan off", "pt created", "out of serv", "calc failed", "over range", "under range"),
)


def to_floats(column: Any, name: str, *, first_row: int = 0, where: str = "") -> NDArray[Any]:
    """Convert to float64 (float32 is kept), missing values to NaN; text must be readable as numbers."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _floats_from_text(column, name, first_row, where)
    if _is_list(kind):
        if not holds_numbers(kind):
            raise InputError(f"column {name!r}{_in(where)} holds lists that are not of numbers")
        return _rows_of_equal_length(column, name, where)
    if not _is_number_like(kind):
        raise InputError(f"column {name!r}{_in(where)} holds {_plain_name(kind)}, not numbers")
    if pa.types.is_float32(kind):
        return _values(column, np.nan)
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    # Not a safe cast: integers above 2**53 lose digits, which do not matter for signals.
    return _values(pc.cast(column, pa.float64(), safe=False), np.nan)


def to_array(column: Any, name: str, *, where: str = "") -> NDArray[Any]:
    """Convert to the closest NumPy type: numbers, booleans, times, text, or rows of equal length.

    Missing text becomes ``""``, a missing number NaN (integers become float64), a missing time NaT.
    The result is never an object array.
    """
    column = _plain(column)
    if pa.types.is_time(column.type):
        column = pc.cast(column, pa.string())  # a time of day; see --time-format
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Contexts repeat, so each distinct text is converted once.
        coded = pc.dictionary_encode(column)
        texts = np.array([*coded.dictionary.to_pylist(), ""], dtype=str)
        return np.asarray(texts[_values(coded.indices, len(texts) - 1)])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        stamps = pc.cast(pc.cast(column, pa.timestamp("ns"), safe=True), pa.int64())
        return _values(stamps, np.iinfo(np.int64).min).view("datetime64[ns]")
    if _is_list(kind):
        return _rows_of_equal_length(column, name, where)
    if pa.types.is_decimal(kind):
        column = pc.cast(column, pa.float64(), safe=False)
    elif not _is_number_like(kind):
        raise InputError(f"column {name!r}{_in(where)} holds {_plain_name(kind)}, which coad cannot use")
    if column.null_count:
        return to_floats(column, name, where=where)
    if pa.types.is_boolean(column.type):
        return _values(pc.cast(column, pa.int8())).view(np.bool_)
    return _values(column)


def holds_numbers(kind: Any) -> bool:
    """Whether an Arrow type holds numbers, or lists of numbers.

    >>> holds_numbers(pa.float32()), holds_numbers(pa.list_(pa.int16())), holds_numbers(pa.string())
    (True, True, False)
    """
    return holds_numbers(kind.value_type) if _is_list(kind) else _is_number_like(kind)


def _values(column: Any, missing: Any = None) -> NDArray[Any]:
    """The values of a numeric column; copied only if nulls are replaced by ``missing``.

    The buffers are read directly, because pyarrow's own conversions import pandas, which takes
    longer than reading most files and need not be installed.
    """
    size, offset = len(column), column.offset
    dtype = _NUMPY_TYPES[column.type]
    if not size:
        return np.empty(0, dtype=dtype)
    valid, data = column.buffers()
    values = np.frombuffer(data, dtype=dtype, count=offset + size)[offset:]
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")
        values = np.where(bits[offset : offset + size] == 1, values, np.asarray(missing, dtype=dtype))
    return values


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    # Timestamps are stored in UTC; the time zone only matters for display.
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.cast(column, pa.timestamp(column.type.unit))
    return column


def _floats_from_text(column: Any, name: str, first_row: int, where: str) -> FloatArray:
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(trimmed), pa.array(MISSING_WORDS, trimmed.type))
    trimmed = pc.if_else(missing, None, trimmed)
    numbers = _cast(trimmed)
    if numbers is None:
        lower = pc.utf8_lower(trimmed)
        truth = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", trimmed))
        numbers = _cast(truth)
    if numbers is None:
        row = _first_bad(truth)
        value = _short(column[row].as_py())
        raise InputError(f"column {name!r}{_in(where)} is not numeric: {value} at row {first_row + row:,}")
    return _values(numbers, np.nan)


def _cast(text: Any) -> Any:
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return None


def _first_bad(text: Any) -> int:
    """The first row that is not a number, by bisection."""
    start, size = 0, len(text)
    while size > 1:
        half = size // 2
        if _cast(text.slice(start, half)) is None:
            size = half
        else:
            start, size = start + half, size - half
    return start


def _rows_of_equal_length(column: Any, name: str, where: str) -> NDArray[Any]:
    if column.null_count:
        raise InputError(f"column {name!r}{_in(where)} has {column.null_count:,} missing rows")
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise InputError(
            f"column {name!r}{_in(where)} holds rows of different lengths ({min(lengths)} to {max(lengths)})"
        )
    inner = to_array(column.flatten(), name, where=where)
    return inner.reshape(len(column), lengths[0] if lengths else 0, *inner.shape[1:])


def _is_number_like(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    )


def _is_list(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _plain_name(kind: Any) -> str:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return "times"
    if _is_list(kind):
        return "lists"
    return f"values of type {kind}"


def _short(value: str | None) -> str:
    text = repr(value)
    return text if len(text) <= 42 else text[:38] + "...'"


def _in(where: str) -> str:
    return f" in {where!r}" if where else ""
