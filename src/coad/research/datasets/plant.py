"""A simulated press line in time order, for the demo: motor signals (s) and vibration signals (q). Nothing is measured.

Both inputs see the product that runs (three operating points, in stretches), the load, and two rare kinds of event:
bursts of a worn bearing and jams of the tool. Each has a fault of its own that the other cannot see: dropouts of the
current sensor in s, a loose accelerometer in q. Labels are for judging only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

from coad._typing import BoolArray, FloatArray, IntArray, RandomState
from coad.data.pairs import Pairs
from coad.exceptions import InputError

__all__ = [
    "KINDS",
    "PRODUCTS",
    "Q_COLUMNS",
    "S_COLUMNS",
    "UNITS",
    "PlantData",
    "simulated_plant",
    "write_plant",
]

#: Name of each column, its unit, its value at rest, what a standard deviation of the load adds, and that of its noise.
#: They fit together: 400 V and 18 A at a power factor of 0.76 are 9.5 kW, and at 1,480 rpm that is a torque of 61 Nm.
_S_SIGNALS = {
    "motor_current": ("A", 18.0, 1.2, 0.6),
    "motor_voltage": ("V", 400.0, -1.0, 1.2),
    "motor_power": ("kW", 9.5, 0.7, 0.35),
    "motor_temp": ("°C", 62.0, 1.6, 0.9),
    "motor_speed": ("rpm", 1480.0, -4.0, 2.5),
    "motor_torque": ("Nm", 61.0, 4.2, 2.2),
}
_Q_SIGNALS = {
    "vib_rms": ("mm/s", 2.1, 0.16, 0.09),
    "vib_peak": ("mm/s", 6.4, 0.6, 0.4),
    "vib_kurtosis": ("", 3.1, 0.0, 0.12),
    "vib_high_band": ("mm/s", 0.55, 0.05, 0.035),
    "noise_level": ("dB", 78.0, 1.1, 0.6),
    "noise_high_band": ("dB", 61.0, 0.9, 0.7),
}
#: The unit of each column.
UNITS = {name: unit for name, (unit, *_) in (_S_SIGNALS | _Q_SIGNALS).items()}
S_COLUMNS = tuple(_S_SIGNALS)
Q_COLUMNS = tuple(_Q_SIGNALS)

#: The operating points; both inputs see which one runs.
PRODUCTS = ("bracket", "housing", "flange")
#: What a product changes in the columns of s and of q, in units of what the load adds. Kurtosis tells neither.
_PRODUCT_SHIFT = (
    ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    ((4.0, 2.0, 4.4, 2.5, 3.5, 4.2), (3.5, 3.0, 0.0, 2.0, 3.2, 2.2)),
    ((-3.2, -2.0, -3.0, -1.8, -3.5, -3.8), (2.2, 4.0, 0.0, 6.0, -2.5, 3.0)),
)
#: Rows of one product before the next is set up: about two days.
_STRETCH = 200

#: What happens in a row; 0 is normal running, the first two are events, the others faults of one sensor.
KINDS = ("normal", "bearing wear", "tool jam", "current dropout", "loose accelerometer")
BEARING, JAM, DROPOUT, LOOSE = 1, 2, 3, 4
#: Share of the rows, and rows that one occurrence lasts, shortest and longest.
_OCCURRENCES = {
    BEARING: (0.015, 3, 8),
    JAM: (0.010, 1, 4),
    DROPOUT: (0.012, 1, 5),
    LOOSE: (0.012, 2, 8),
}
#: What an event or a fault adds to each column at its usual strength, in standard deviations of the column's noise.
#: A worn bearing is mostly heard and felt, and its friction warms the motor; a jam is mostly torque and current, with a knock.
_EFFECT_S: dict[int, tuple[float, ...]] = {
    BEARING: (6.0, 0.0, 6.0, 11.0, -3.0, 5.0),
    JAM: (14.0, -7.0, 12.0, 2.0, -16.0, 13.0),
}
_EFFECT_Q: dict[int, tuple[float, ...]] = {
    BEARING: (7.0, 6.0, 12.0, 14.0, 4.0, 7.0),
    JAM: (6.0, 12.0, 5.0, 2.0, 9.0, 3.0),
    LOOSE: (9.0, 8.0, -5.0, -6.0, 0.0, 0.0),  # the microphone hears nothing of it
}
#: Columns of s that are read from the current sensor (current, and power, which is computed from it).
_FROM_CURRENT = (0, 2)

_STEP = np.timedelta64(15, "m")
_START = np.datetime64("2025-03-03T06:00", "ns")  # a Monday, first shift
#: How slowly load and noise change from row to row (AR(1) coefficients).
_LOAD_MEMORY, _NOISE_MEMORY = 0.9, 0.4
#: Share of a column's noise variance that all columns of its input have in common.
_COMMON_NOISE = 0.35


@dataclass(frozen=True)
class PlantData:
    """Simulated rows; ``pairs`` has time, label (any event) and names.

    ``product`` is the operating point of each row, for use as a context; ``kind`` is what happens in it, by number in
    :data:`KINDS`. Neither ``kind`` nor the label is for anything but judging.
    """

    pairs: Pairs
    product: np.ndarray[Any, Any]
    kind: IntArray
    source: str


def simulated_plant(n: int = 4000, random_state: RandomState = 0) -> PlantData:
    """Simulate rows of a press line, one every 15 minutes.

    Parameters
    ----------
    n
        Number of rows, at least 500, so that each kind of event happens.
    random_state
        Seed; the same seed gives the same rows.

    Returns
    -------
    PlantData

    >>> plant = simulated_plant(random_state=0)
    >>> plant.pairs
    Pairs(4,000 rows, s (6,), q (6,), with time, label)
    >>> {name: int((plant.kind == number).sum()) for number, name in enumerate(KINDS) if number}
    {'bearing wear': 60, 'tool jam': 40, 'current dropout': 48, 'loose accelerometer': 48}
    """
    if not isinstance(n, (int, np.integer)) or n < 500:
        raise InputError(f"n must be a whole number of at least 500, not {n}")
    rng = np.random.default_rng(random_state)
    product = _products(rng, n)
    load = _slow(rng, n, _LOAD_MEMORY)
    kind = _kinds(rng, n)
    strength = _strengths(rng, kind)
    sides = []
    for side, signals, effects in ((0, _S_SIGNALS, _EFFECT_S), (1, _Q_SIGNALS, _EFFECT_Q)):
        rest, by_load, noise = np.array([numbers for _, *numbers in signals.values()]).T
        shift = np.array([one[side] for one in _PRODUCT_SHIFT])[product]
        values = rest + by_load * (load[:, None] + shift) + noise * _noise(rng, n, len(signals))
        for number, effect in effects.items():
            values += noise * np.array(effect) * (strength * (kind == number))[:, None]
        sides.append(values)
    s, q = sides
    _drop_current(rng, s, kind == DROPOUT)
    label = np.isin(kind, (BEARING, JAM))
    time = _START + np.arange(n) * _STEP
    return PlantData(
        Pairs(s, q, time=time, label=label, s_names=S_COLUMNS, q_names=Q_COLUMNS),
        product=np.array(PRODUCTS)[product],
        kind=kind,
        source=f"simulated press line: {n:,} rows at 15 minutes, {int(label.sum())} rows of events",
    )


def write_plant(path: str | Path, n: int = 4000, random_state: RandomState = 0) -> Path:
    """Write the simulated plant as one table: time, product, the columns of both inputs, kind and event.

    Parameters
    ----------
    path
        A file that ends in ``.parquet`` or ``.csv``.
    n, random_state
        As in :func:`simulated_plant`.

    Returns
    -------
    The path.

    >>> import tempfile
    >>> path = write_plant(Path(tempfile.mkdtemp()) / "plant.csv", 500)
    >>> path.read_text().splitlines()[0].split(",")[:3]
    ['"time"', '"product"', '"motor_current"']
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from coad.data.atomic import written_whole
    from coad.data.csv_writer import CsvWriter

    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"the plant is written as .parquet or .csv, not as {path.name!r}")
    plant = simulated_plant(n, random_state)
    pairs = plant.pairs
    columns = {"time": pairs.time, "product": plant.product}
    columns |= dict(
        zip((*S_COLUMNS, *Q_COLUMNS), np.column_stack([pairs.s, pairs.q]).round(4).T, strict=True)
    )
    columns |= {"kind": np.array(KINDS)[plant.kind], "event": np.asarray(pairs.label, dtype=np.int64)}
    table = pa.table(columns)
    with written_whole(path) as draft:
        if path.suffix.lower() == ".csv":
            # Whole seconds, without the nine zeros of nanoseconds.
            table = table.set_column(0, "time", table["time"].cast(pa.timestamp("s")))
            with CsvWriter(draft, table.schema) as writer:
                writer.write_table(table)
        else:
            pq.write_table(table, draft)
    return path


def _products(rng: np.random.Generator, n: int) -> IntArray:
    """The product of each row, in stretches of about ``_STRETCH`` rows; never the same one twice in a row."""
    result = np.empty(n, dtype=np.int64)
    start, current = 0, int(rng.integers(len(PRODUCTS)))
    while start < n:
        end = start + int(rng.integers(_STRETCH // 2, _STRETCH * 3 // 2))
        result[start:end] = current
        start, current = end, (current + int(rng.integers(1, len(PRODUCTS)))) % len(PRODUCTS)
    return result


def _slow(rng: np.random.Generator, n: int, memory: float, columns: int = 1) -> FloatArray:
    """AR(1) noise of variance 1, one column or several."""
    steps = rng.normal(size=(n, columns)) * np.sqrt(1 - memory**2)
    steps[0] /= np.sqrt(1 - memory**2)
    result: FloatArray = lfilter([1.0], [1.0, -memory], steps, axis=0)
    return result[:, 0] if columns == 1 else result


def _noise(rng: np.random.Generator, n: int, columns: int) -> FloatArray:
    """Noise of variance 1 in each column, part of which the columns share; each input draws its own."""
    own = _slow(rng, n, _NOISE_MEMORY, columns)
    common = _slow(rng, n, _NOISE_MEMORY)[:, None]
    result: FloatArray = np.sqrt(1 - _COMMON_NOISE) * own + np.sqrt(_COMMON_NOISE) * common
    return result


def _kinds(rng: np.random.Generator, n: int) -> IntArray:
    """What happens in each row: occurrences of each kind at random places, with a normal row between any two."""
    kind = np.zeros(n, dtype=np.int64)
    for number, (rate, shortest, longest) in _OCCURRENCES.items():
        left = round(rate * n)
        while left:
            length = min(int(rng.integers(shortest, longest + 1)), left)
            start = int(rng.integers(1, n - length))
            if not kind[start - 1 : start + length + 1].any():
                kind[start : start + length] = number
                left -= length
    return kind


def _strengths(rng: np.random.Generator, kind: IntArray) -> FloatArray:
    """How strong an occurrence is, the same for both inputs: 0.7 to 1.5 times its usual effect, a little less or more
    in each row."""
    starts = np.flatnonzero(np.diff(kind, prepend=0) != 0)
    each = rng.uniform(0.7, 1.5, len(starts) + 1)
    result: FloatArray = each[np.searchsorted(starts, np.arange(len(kind)), side="right")]
    return result * rng.uniform(0.9, 1.1, len(kind))


def _drop_current(rng: np.random.Generator, s: FloatArray, rows: BoolArray) -> None:
    """The current sensor reads almost nothing, and so does the power that is computed from it."""
    for column in _FROM_CURRENT:
        s[rows, column] *= rng.uniform(0.0, 0.06, int(rows.sum()))
