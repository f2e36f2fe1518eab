"""Long tables (time, tag, value), as historians export them, as wide ones: a row per time, a column per tag."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import IntArray
from coad.data.columns import check_columns, quoted
from coad.data.layout import Layout
from coad.data.memory import refuse_too_large
from coad.data.paths import PathLike, find_files
from coad.data.tables import column_names, iter_batches, joined_parts
from coad.data.times import epoch_unit, parse_time
from coad.exceptions import CoadWarning, InputError

#: Usual names of the three columns, in any case.
_TIME = ("time", "timestamp", "datetime", "date", "t", "ts")
_TAG = (
    "tag",
    "tagname",
    "tag_name",
    "name",
    "sensor",
    "signal",
    "point",
    "variable",
    "channel",
    "metric",
    "id",
)
_VALUE = ("value", "val", "reading", "measurement", "data")

_ADVICE = "give fewer files at a time"


def long_columns(source: PathLike | Iterable[PathLike], named: str) -> tuple[str, str, str]:
    """The columns of time, tag and value: ``"time,tag,value"``, or ``"auto"`` to find them by their names."""
    path = find_files(source)[0]
    names = column_names(path)
    if named == "auto":
        found = [[name for name in names if name.lower() in usual] for usual in (_TIME, _TAG, _VALUE)]
        if any(len(one) != 1 for one in found):
            raise InputError(
                f"which columns of {str(path)!r} are time, tag and value is not clear from {quoted(names)}; "
                "name them: --long time,tag,value"
            )
        return found[0][0], found[1][0], found[2][0]
    parts = [part.strip() for part in named.split(",")]
    if len(parts) != 3 or len(set(parts)) != 3:
        raise InputError(f"--long names three columns, time,tag,value, or is auto; not {named!r}")
    check_columns(names, parts, where=str(path))
    return parts[0], parts[1], parts[2]


def wide_source(source: Any, layout: Layout) -> Any:
    """The files as they are, or, for a layout of long tables, a temporary wide table made of them."""
    if layout.long is None or source is None or source in _made.values():
        return source
    files = tuple(find_files(source))
    state = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    key = (state, layout.long, layout.time_format, layout.time_unit)
    if key not in _made:
        columns = long_columns(files, layout.long)
        table = _pivoted(files, columns, layout)
        folder = Path(tempfile.mkdtemp(prefix=f"{len(_made)}-", dir=_folder()))
        _made[key] = folder / f"{files[0].name.split('.')[0]}.parquet"
        _write(table, _made[key])
    return _made[key]


#: The wide tables of this process, by their files and columns.
_made: dict[Any, Path] = {}


@lru_cache(maxsize=1)
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="coad-")  # removed when the process ends


def _folder() -> str:
    return _temporary().name


def _write(table: dict[str, NDArray[Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), path)


def _pivoted(files: Sequence[Path], columns: tuple[str, str, str], layout: Layout) -> dict[str, NDArray[Any]]:
    time_name, tag_name, value_name = columns
    unit = layout.time_unit
    times: list[NDArray[Any]] = []
    codes: list[IntArray] = []
    values: list[NDArray[Any]] = []
    number: dict[str, int] = {}
    rows = 0
    for batch in iter_batches(files, columns, categories=[time_name, tag_name]):
        unit = unit or epoch_unit(batch.columns[time_name])  # of the first batch, for all
        times.append(
            parse_time(batch.columns[time_name], unit=unit, format=layout.time_format, name=time_name)
        )
        tags, inner = np.unique(batch.columns[tag_name].astype(str), return_inverse=True)
        codes.append(np.array([number.setdefault(str(tag), len(number)) for tag in tags])[inner])
        values.append(batch.columns[value_name])
        rows += len(batch)
        refuse_too_large(24.0 * rows, "the long table", _ADVICE)
    if not rows:
        raise InputError(f"{str(files[0])!r} has no rows")
    time, code, value = joined_parts(times, time_name), np.concatenate(codes), np.concatenate(values)
    if time_name in number:
        raise InputError(f"tag {time_name!r} has the name of the time column; rename one of them")
    instants, place = np.unique(time, return_inverse=True)
    refuse_too_large(8.0 * len(instants) * len(number), f"a wide table of {len(number):,} tags", _ADVICE)
    wide = np.full((len(number), len(instants)), np.nan)
    wide[code, place] = value
    filled = np.zeros(wide.shape, dtype=np.bool_)
    filled[code, place] = True
    repeated = rows - int(filled.sum())
    if repeated:
        warnings.warn(
            f"{repeated:,} rows repeat the time and tag of another row; the last of them counts",
            CoadWarning,
            stacklevel=2,
        )
    return {time_name: instants} | {tag: wide[number[tag]] for tag in sorted(number)}
