"""The data sets of ``coad bench --methods``: the simulated RF station, milling, digits, or the user's files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coad.core.labels import average_precision, best_f1
from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError
from coad.research.baselines.strategies import JOINT, Judged
from coad.research.experiments._progress import Progress, silent

__all__ = ["NAMES", "BenchData", "available_data", "bench_data", "from_files", "sorted_names"]

#: The data sets that have a name.
NAMES = ("rf", "milling", "digits")

Sides = tuple[Pairs, Pairs]


@dataclass(frozen=True)
class BenchData:
    """A data set with a function that splits it into training and test rows.

    Attributes
    ----------
    name, source
        Short name and description.
    split
        ``split(number, seed)`` returns the training and the test pairs of one split.
    setting
        Arguments of :class:`~coad.learned.estimator.CoAD` for these data.
    supervised
        Replacements in ``setting`` for networks that learn from labels.
    regimes, labelled
        Whether the pairs have a context and labels.
    fingerprint
        Hash of the content.
    fit_coad
        Used instead of the plain fit where an experiment applies CoAD in its own way.
    either
        Whether ``fit_coad`` flags rows that are anomalous in either input, not only in both.
    """

    name: str
    source: str
    split: Callable[[int, int], Sides]
    setting: dict[str, Any] = field(default_factory=dict)
    supervised: dict[str, Any] = field(default_factory=dict)
    regimes: bool = False
    labelled: bool = True
    fingerprint: str = ""
    fit_coad: Callable[[Pairs, Pairs, bool, int, dict[str, Any]], Judged] | None = None
    either: bool = False


def bench_data(name: str, *, folder: Path | None = None, quick: bool = False, seed: int = 0) -> BenchData:
    """Load or simulate a data set by name.

    Parameters
    ----------
    name
        One of :data:`NAMES`.
    folder
        Folder of the milling files; by default COAD_DATA is searched.
    quick
        Use fewer rows and shorter training.
    seed
        Seed of the simulated data.

    Returns
    -------
    BenchData
        The data set with its training settings.
    """
    if name == "rf":
        return _rf(quick, seed)
    if name == "milling":
        return _milling(folder, quick)
    if name == "digits":
        return _digits(quick)
    raise InputError(f"unknown data set {name!r}; there are {', '.join(NAMES)}, or give a file")


def available_data(
    *, folder: Path | None = None, quick: bool = False, seed: int = 0, progress: Progress = silent
) -> list[BenchData]:
    """Load all named data sets (see :func:`bench_data`), leaving out those whose files are not found."""
    found = []
    for name in NAMES:
        try:
            found.append(bench_data(name, folder=folder, quick=quick, seed=seed))
        except FileError as error:
            progress(f"{name} is left out: {error}")
    return found


def sorted_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate names of data sets, each once, from paths of files; a file must exist unless it is a pattern.

    >>> sorted_names(["RF", "digits", "rf", "run*.csv"])
    (['rf', 'digits'], ['run*.csv'])
    """
    files = [name for name in names if name.lower() not in NAMES]
    for name in files:
        if not Path(name).exists() and not any(mark in name for mark in "*?["):
            raise InputError(f"{name!r} is neither a file nor one of the data sets {', '.join(NAMES)}")
    return list(dict.fromkeys(name.lower() for name in names if name.lower() in NAMES)), files


def from_files(files: Sequence[str | Path], layout: Any, *, test_size: float = 0.25) -> BenchData:
    """Read the user's files as one data set.

    Splits keep groups whole if the layout names a group, else blocks of time if it names a time
    column (rows close in time resemble each other); otherwise rows are split at random.

    Parameters
    ----------
    files
        Paths of tables or arrays.
    layout
        Which columns are s, q, label, context, group and time: a :class:`~coad.data.Layout`.
    test_size
        Fraction of the rows used for testing.

    Returns
    -------
    BenchData
        At least 200 rows.
    """
    from coad.data import read_pairs

    pairs: Pairs = read_pairs([str(file) for file in files], layout)
    if len(pairs) < 200:
        raise InputError(f"{len(pairs):,} rows are too few to compare methods; at least 200 are needed")
    by = "group" if pairs.group is not None else "time" if pairs.time is not None else "random"
    if pairs.label is not None:
        label = pairs.label
        if label.dtype.kind not in "biuf" or not np.isin(label, (0, 1)).all():
            raise InputError("the label must be 1 (anomaly) and 0 (normal), or true and false")
        if len(np.unique(label)) < 2:
            raise InputError(f"every label is {label[0]}, so nothing can be evaluated; leave --label out")
    names = ", ".join(Path(file).name for file in files)

    def split(number: int, seed: int) -> Sides:
        return pairs.split(test_size, by=by, random_state=np.random.default_rng([seed, number]))

    return BenchData(
        name=names,
        source=f"{len(pairs):,} rows of {names}, split by {by}",
        split=split,
        regimes=pairs.context is not None,
        labelled=pairs.label is not None,
        fingerprint=_fingerprint(pairs),
    )


def _rf(quick: bool, seed: int) -> BenchData:
    from coad.research.datasets.rf_station import simulate
    from coad.research.experiments.rf import QUICK_SETTING, SETTING, TEST_SIZE, WINDOWS, paper_augment

    n, part = (1500, 0.25) if quick else (WINDOWS, TEST_SIZE)
    pairs = simulate(n, random_state=seed).pairs

    def split(number: int, start: int) -> Sides:
        return pairs.split(part, random_state=np.random.default_rng([start, number]))

    source = f"{n:,} simulated windows of an RF station and its beam (not measured)"
    return BenchData(
        name="rf",
        source=source,
        split=split,
        setting=dict(QUICK_SETTING if quick else SETTING),
        supervised={"augment": paper_augment},  # with labels both signs are learned without flipping
        fingerprint=_fingerprint(pairs),
    )


def _milling(folder: Path | None, quick: bool) -> BenchData:
    from coad.research.datasets.milling import load_milling_features
    from coad.research.experiments.milling import held_out_cuts, window_in_cut

    whole = load_milling_features(folder)
    pairs = whole.pairs
    number = window_in_cut(pairs)
    every = 32 if quick else 8

    def split(number_of_split: int, seed: int) -> Sides:
        test = held_out_cuts(pairs, 0.3, np.random.default_rng([seed, number_of_split]))
        return pairs[~test & (number % every == 0)], pairs[test]

    return BenchData(
        name="milling",
        source=(
            f"{whole.source}; one window in {every} for training; positive: degraded or failed; CoAD flags what is off in "
            "either input, and labels may choose this rule for a peer's best F1"
        ),
        split=split,
        setting={"epochs": 200},
        regimes=True,
        fingerprint=_fingerprint(pairs),
        fit_coad=_milling_coad,
        either=True,
    )


def _milling_coad(train: Pairs, test: Pairs, regimes: bool, seed: int, setting: dict[str, Any]) -> Judged:
    """CoAD as in ``coad reproduce milling``, where the motor current decides which half is worn."""
    from coad.research.experiments.milling import fit_split

    options = {"beta": 1.0, "n_starts": 4, "epochs": 200, "net": None, **setting}
    method = "regimes" if regimes else "plain"
    row, anomaly, healthy = fit_split(0, method, train.without_label(), test, options, seed)
    truth = np.asarray(test.label, dtype=bool)
    # The thresholds are searched on training rows without labels, so own and ours are the same.
    best = best_f1(truth, *healthy, rest=True)
    return Judged(JOINT, row.f1, row.f1, best, average_precision(truth, anomaly))


def _digits(quick: bool) -> BenchData:
    from coad.research.datasets.digits import digits_pairs

    n = 1000 if quick else 6000

    def split(number: int, seed: int) -> Sides:
        rng = np.random.default_rng([seed, number])
        sides = []
        for part, size in (("train", n), ("test", n // 3)):
            drawn = digits_pairs(size, rng, split=part)  # type: ignore[arg-type]
            s, q = (x.reshape(len(x), -1) for x in (drawn.s, drawn.q))
            sides.append(Pairs(s, q, label=drawn.digit > 0))
        return sides[0], sides[1]

    return BenchData(
        name="digits",
        source=f"{n:,} pairs of scikit-learn's digits under the paper's observation model; digits 1 to 3 are events",
        split=split,
        setting={"epochs": 60, "batch_size": 1000, "lr": 2e-2},
        fingerprint=str(n),
    )


def _fingerprint(pairs: Pairs) -> str:
    """Hash of all arrays: a changed regime, group or label changes the results too."""
    digest = hashlib.sha256()
    for name in ("s", "q", "context", "group", "time", "label"):
        values = getattr(pairs, name)
        if values is not None:
            digest.update(f"{name} {values.shape} {values.dtype}".encode())
            plain = values.astype(str) if values.dtype.kind == "O" else values
            digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()[:16]
