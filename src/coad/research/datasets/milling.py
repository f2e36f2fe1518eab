"""UC Berkeley / NASA milling (Agogino and Goebel 2007): motor currents against vibration and sound.

Two forms are read. :func:`load_mill_mat` takes the original ``mill.mat`` (a struct ``mill`` of 167
cuts with 13 fields) and gives raw windows of 64 samples, as the paper used them.
:func:`load_milling_features` takes a table of window features, one row a window. In both, s are
the two motor currents and q the two vibration and two acoustic sensors; the operating regime is
(material, depth of cut, feed), a cut is a group, and the label is "degraded or failed".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import FloatArray, IntArray
from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError
from coad.research.datasets._fetch import RemoteFile, fetch

__all__ = [
    "CORRUPT_CUTS",
    "FIELDS",
    "MATERIALS",
    "MillingData",
    "interpolated_wear",
    "load_mill_mat",
    "load_milling_features",
    "stable_part",
    "tool_class_of",
]

#: The sensors of each input, as ``mill.mat`` calls them.
S_SENSORS = ("smcAC", "smcDC")
Q_SENSORS = ("vib_table", "vib_spindle", "AE_table", "AE_spindle")
#: All 13 fields of the struct.
FIELDS = ("case", "run", "VB", "time", "DOC", "feed", "material", *S_SENSORS, *Q_SENSORS)
#: Cuts (counted from 0) whose signals are corrupt in the published file.
CORRUPT_CUTS = (17, 94)
MATERIALS = {1: "cast iron", 2: "steel"}
#: Flank wear in mm from which a tool counts as degraded, and as failed.
DEGRADED, FAILED = 0.2, 0.7

_TABLE = "labels_with_tool_class.csv"
_FEATURES = ("abs_energy", "absolute_sum_of_changes", "kurtosis")
_FEATURES_HOME = "https://github.com/PrMine54/milling-data/"


@dataclass(frozen=True)
class MillingData:
    """Pairs with the properties of each row; ``wear`` and ``tool_class`` are for evaluation only.

    ``wear`` (VB, mm) is NaN where it was not measured. ``source`` describes the data.
    """

    pairs: Pairs
    wear: FloatArray
    tool_class: IntArray
    case: IntArray
    run: IntArray
    source: str

    def __len__(self) -> int:
        return len(self.pairs)

    def rows(self, index: Any) -> MillingData:
        """Select rows by a mask, a slice or an array of row numbers."""
        return replace(
            self,
            pairs=self.pairs[index],
            **{name: getattr(self, name)[index] for name in ("wear", "tool_class", "case", "run")},
        )


def load_mill_mat(
    path: str | Path,
    *,
    table: str | Path | None = None,
    window: int = 64,
    stride: int | None = None,
    drop: tuple[int, ...] = CORRUPT_CUTS,
) -> MillingData:
    """Raw windows of the original ``mill.mat``: s is (n, 2, window), q is (n, 4, window).

    ``table`` is ``labels_with_tool_class.csv`` (columns ``cut_no``, ``tool_class``,
    ``window_start``, ``window_end``), by default searched for beside the file. Without one, the
    stable part of a cut follows from :func:`stable_part`, and the class from the flank wear with
    :func:`interpolated_wear`. Windows do not overlap unless ``stride`` is smaller than ``window``.
    """
    from coad.data.windows import make_windows

    file = Path(path)
    columns = _read_struct(file)
    n = len(columns["case"])
    signals = np.stack([columns[name] for name in S_SENSORS + Q_SENSORS], axis=2)
    beside = file.parent / _TABLE
    known = None if table is None and not beside.is_file() else _read_table(Path(table or beside))
    starts, ends, classes = np.zeros((3, n), dtype=np.int64)
    estimated = tool_class_of(interpolated_wear(columns["VB"], columns["case"], columns["run"]))
    for cut in range(n):
        row = None if known is None else known.get(cut)
        if row is None:
            starts[cut], ends[cut] = stable_part(columns["smcDC"][cut])
            classes[cut] = estimated[cut]
        else:
            classes[cut], starts[cut], ends[cut] = row
    kept: list[tuple[int, int]] = []
    for cut in (cut for cut in range(n) if cut not in drop):
        inside = make_windows(max(int(ends[cut] - starts[cut]), 0), window, stride)
        kept += [(cut, int(starts[cut] + start)) for start in inside.start]
    if not kept:
        raise InputError(f"no window of {window:,} samples fits into the stable part of any cut of {file}")
    cuts, first = np.array(kept, dtype=np.int64).T
    samples = signals[cuts[:, None], first[:, None] + np.arange(window)].transpose(0, 2, 1)
    rule = "its table of stable parts" if known is not None else "stable parts found by rule"
    return MillingData(
        pairs=Pairs(
            np.ascontiguousarray(samples[:, :2], dtype=np.float32),
            np.ascontiguousarray(samples[:, 2:], dtype=np.float32),
            context=_regime(*(columns[name][cuts] for name in ("material", "DOC", "feed"))),
            id=np.array([f"{cut}_{start}" for cut, start in kept]),
            group=cuts,
            label=classes[cuts] >= 1,
            s_names=S_SENSORS,
            q_names=Q_SENSORS,
        ),
        wear=columns["VB"][cuts],
        tool_class=classes[cuts],
        case=columns["case"][cuts].astype(np.int64),
        run=columns["run"][cuts].astype(np.int64),
        source=f"raw windows of {window} samples from {len(np.unique(cuts))} cuts of {file.name}, {rule}",
    )


def load_milling_features(
    data: str | Path | None = None, *, every: int = 1, logarithms: bool = True
) -> MillingData:
    """The table ``window_features.csv``: 3 features of each of the 6 sensors, a row per window.

    ``data`` is the file or a folder that holds it; otherwise COAD_DATA and the cache are
    searched. Windows of 1,024 samples start every 64, so neighbours overlap by 94 %: ``every=8``
    keeps each eighth window of a cut. With ``logarithms`` (default) energies and sums of changes,
    which are positive and span decades, are replaced by their logarithms, kurtosis by its asinh.
    """
    from coad.data.tables import read_columns

    if every < 1:
        raise InputError(f"every must be 1 or more, not {every}")
    path = _features_path(data)
    s_names, q_names = (
        tuple(f"{sensor.lower()}__{feature}" for sensor in sensors for feature in _FEATURES)
        for sensors in (S_SENSORS, Q_SENSORS)
    )
    plain = ("cut_no", "case", "run", "VB", "DOC", "feed", "material", "tool_class", "window")
    columns = read_columns(path, [*plain, *s_names, *q_names])
    keep = columns["window"].astype(np.int64) % every == 0
    columns = {name: values[keep] for name, values in columns.items()}
    s, q = (
        np.column_stack([_compressed(columns[name], name) if logarithms else columns[name] for name in names])
        for names in (s_names, q_names)
    )
    cuts = columns["cut_no"].astype(np.int64)
    tool_class = columns["tool_class"].astype(np.int64)
    return MillingData(
        pairs=Pairs(
            s,
            q,
            context=_regime(columns["material"], columns["DOC"], columns["feed"]),
            id=np.array([f"{a}_{b}" for a, b in zip(cuts, columns["window"].astype(np.int64), strict=True)]),
            group=cuts,
            label=tool_class >= 1,
            s_names=s_names,
            q_names=q_names,
        ),
        wear=columns["VB"],
        tool_class=tool_class,
        case=columns["case"].astype(np.int64),
        run=columns["run"].astype(np.int64),
        source=f"features of {len(cuts):,} windows (1,024 samples) from {len(np.unique(cuts))} cuts; "
        "not the raw signals that the paper used",
    )


def stable_part(smc_dc: FloatArray) -> tuple[int, int]:
    """Find the steady part of a cut from the DC motor current: [start, end) in samples.

    The rule for a file without a table: smooth over 500 samples; cutting is where the
    current is above the middle between idling (5th percentile) and load (80th); take the longest
    such interval, and drop a tenth of it at either end.

    >>> current = np.concatenate([np.ones(2000), np.full(5000, 8.0), np.ones(2000)])
    >>> start, end = stable_part(current)
    >>> 2000 < start < 2600, 6400 < end < 7000
    (True, True)
    """
    width = max(1, min(500, len(smc_dc) // 4))
    padded = np.pad(np.asarray(smc_dc, dtype=np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    total = np.concatenate([[0.0], np.cumsum(padded)])
    smooth = (total[width:] - total[:-width]) / width
    idle, load = np.percentile(smooth, [5, 80])
    edges = np.flatnonzero(
        np.diff(np.concatenate([[False], smooth > (idle + load) / 2, [False]]).astype(int))
    )
    if not len(edges):
        return 0, 0
    intervals = edges.reshape(-1, 2)
    start, end = (int(x) for x in intervals[np.argmax(intervals[:, 1] - intervals[:, 0])])
    margin = (end - start) // 10
    return start + margin, end - margin


def interpolated_wear(wear: FloatArray, case: FloatArray, run: FloatArray) -> FloatArray:
    """Interpolate missing flank wear linearly over the runs of a tool, with no wear at run 0.

    After the last measurement the wear is constant.

    >>> interpolated_wear(np.array([np.nan, 0.1, np.nan]), np.ones(3), np.array([1.0, 2, 3])).tolist()
    [0.05, 0.1, 0.1]
    """
    filled = np.array(wear, dtype=np.float64)
    for tool in np.unique(case):
        mine = case == tool
        measured = mine & ~np.isnan(wear)
        order = np.argsort(run[measured])
        filled[mine] = np.interp(
            run[mine], np.append(0.0, run[measured][order]), np.append(0.0, wear[measured][order])
        )
    return filled


def tool_class_of(wear: FloatArray) -> IntArray:
    """0 healthy (below 0.2 mm), 1 degraded, 2 failed (0.7 mm and more).

    >>> tool_class_of(np.array([0.19, 0.2, 0.7])).tolist()
    [0, 1, 2]
    """
    return np.digitize(wear, [DEGRADED, FAILED]).astype(np.int64)


def _read_struct(path: Path) -> dict[str, NDArray[Any]]:
    from coad.data.matlab import read_mat

    if not path.is_file():
        raise FileError(f"there is no file {str(path)!r}; mill.mat is published by NASA's prognostics centre")
    columns = {name.rpartition(".")[2]: values for name, values in read_mat(path).items()}
    missing = [name for name in FIELDS if name not in columns]
    if missing:
        raise FileError(f"{str(path)!r} is not mill.mat: its struct has no field {', '.join(missing)}")
    for name in S_SENSORS + Q_SENSORS:
        # In a file of a single cut the axis of cuts is missing.
        columns[name] = columns[name].reshape(len(columns["case"]), -1).astype(np.float64)
    return {name: np.atleast_1d(columns[name]) for name in FIELDS}


def _read_table(path: Path) -> dict[int, tuple[int, int, int]]:
    from coad.data.tables import read_columns

    names = ("cut_no", "tool_class", "window_start", "window_end")
    columns = read_columns(path, names)
    rows = np.column_stack([columns[name] for name in names]).astype(np.int64)
    return {cut: (kind, start, end) for cut, kind, start, end in rows.tolist()}


def _features_path(data: str | Path | None) -> Path:
    if data is not None and Path(data).is_file():
        return Path(data)
    name = "window_features.csv"
    return fetch([RemoteFile(name, (_FEATURES_HOME + name,), "")], "milling", data, download=False)[0]


def _compressed(values: FloatArray, name: str) -> FloatArray:
    return np.asarray(np.arcsinh(values) if name.endswith("kurtosis") else np.log(np.maximum(values, 1e-9)))


def _regime(material: FloatArray, depth: FloatArray, feed: FloatArray) -> NDArray[Any]:
    """One name per regime, such as ``steel, 0.75 mm deep, 0.25 mm/rev``."""
    return np.array(
        [
            f"{MATERIALS.get(int(m), f'material {int(m)}')}, {d:g} mm deep, {f:g} mm/rev"
            for m, d, f in zip(material, depth, feed, strict=True)
        ]
    )
