"""Every method on the same splits of the same data: is coincidence better than what you would use instead?

Each method is fitted on the training rows of each split (without labels, unless its row says that it
needs them), and judged on the test rows. Results are kept in a Parquet file after each fit, so a run
that stopped goes on where it was; failed fits are tried again.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coad import __version__
from coad._typing import FloatArray
from coad.core.verdict import FOUND, SHARED_REGIME
from coad.data.atomic import check_writable, written_whole
from coad.data.pairs import Pairs
from coad.exceptions import CoadWarning, FileError, InputError
from coad.research.baselines.registry import METHODS, Method, chosen_methods
from coad.research.baselines.rows import Sides
from coad.research.baselines.strategies import (
    JOINT,
    SCORE_STACK,
    STACK_SCORE,
    Judged,
    judge_pair,
    judge_single,
    run_one_input,
    run_two_inputs,
)
from coad.research.experiments.peer_data import BenchData

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["Line", "PeersRun", "Result", "read_results", "run_peers", "summary", "to_markdown"]

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """One method on one split under one strategy; ``error`` is the first line of what went wrong.

    ``key`` names the data and settings: rows of another key are not mixed in.
    """

    key: str
    data: str
    method: str
    strategy: str
    split: int
    own: float | None = None
    ours: float | None = None
    best: float | None = None
    average_precision: float | None = None
    seconds: float = 0.0
    error: str = ""
    flagged: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the table: one method on one data set, mean and spread over the splits."""

    data: str
    method: str
    title: str
    strategy: str
    labels: str
    splits: int
    own: tuple[float, float] | None
    ours: tuple[float, float] | None
    best: tuple[float, float] | None
    average_precision: tuple[float, float] | None
    flagged: tuple[float, float] | None
    seconds: float
    error: str
    judged: bool
    note: str


@dataclass(frozen=True)
class PeersRun:
    """All results, and in words what the data are."""

    results: list[Result]
    sources: dict[str, str]

    @property
    def errors(self) -> list[Result]:
        """What failed."""
        return [row for row in self.results if row.error]

    def lines(self) -> list[Line]:
        """The table."""
        return summary(self.results)


def run_peers(
    data: Sequence[BenchData],
    methods: Sequence[str] = ("all",),
    *,
    splits: int = 5,
    quick: bool = False,
    random_state: int = 0,
    store: str | Path | None = None,
    progress: Tell | None = None,
) -> PeersRun:
    """Fit and judge the methods named on each data set, going on from ``store`` where it holds results."""
    if splits < 1:
        raise InputError(f"splits must be at least 1, not {splits}")
    say: Tell = progress if progress is not None else lambda _: None
    path = None if store is None else check_writable(Path(store))
    plans = [
        (one, chosen_methods(methods, one.name, regimes=one.regimes, labelled=one.labelled)) for one in data
    ]
    kept = [] if path is None else read_results(path)
    results: list[Result] = []
    for one, chosen in plans:
        key = _key(one, quick, random_state)
        old = [row for row in kept if row.key == key and not row.error]
        for split in range(splits):
            sides: Sides | None = None
            for method in chosen:
                done = [row for row in old if (row.method, row.split) == (method.name, split)]
                if done:
                    results += done
                    continue
                if sides is None:
                    sides = Sides(*one.split(split, random_state), seed=random_state + 1000 * split)
                rows = _fit_and_judge(one, method, sides, split, key, quick)
                results += rows
                if path is not None:
                    kept = _merged(kept, rows)
                    _write_results(path, kept)
                say(f"{one.name}, split {split + 1} of {splits}, {method.title}: {_words(rows)}")
    return PeersRun(results, {one.name: one.source for one in data})


def read_results(path: Path) -> list[Result]:
    """The results of a store; none if it is not there yet."""
    if not path.exists():
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
        return [Result(**row) for row in rows]
    except (pa.ArrowException, OSError, TypeError) as error:
        raise FileError(
            f"{path} does not hold results of coad bench ({str(error).splitlines()[0]}); name another --out"
        ) from error


def summary(results: Iterable[Result]) -> list[Line]:
    """Mean and spread over splits; of two strategies the one with the better mean of best F1."""
    rows = list(results)
    lines = []
    for data in dict.fromkeys(row.data for row in rows):
        every = [row for row in rows if row.data == data]
        judged = any(row.best is not None for row in every) or not any(
            row.flagged is not None for row in every
        )
        for method in METHODS.values():
            own = [row for row in every if row.method == method.name]
            if own:
                lines.append(_line(data, method, own, judged))
    return lines


def to_markdown(lines: Sequence[Line], digits: int = 3) -> str:
    """The tables as Markdown: data sets one after the other, those without labels in a table of their own."""
    text = []
    for judged in (True, False):
        own = [line for line in lines if line.judged == judged]
        if own:
            head = ("data", *head_of(own))
            text += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
            text += ["| " + " | ".join((line.data, *cells(line, digits))) + " |" for line in own]
            text += ["", LEGEND if judged else LEGEND_WITHOUT_LABELS, ""]
    text.pop()
    text += [
        f"\n{line.data}, {line.title}: {words}"
        for line in lines
        for words in (line.note, line.error)
        if words
    ]
    return "\n".join(text) + "\n"


_SECONDS = (
    "s: seconds for fitting and scoring a split; what methods share (scaling, principal components) counts for the first "
    "of them."
)
#: What the columns are.
LEGEND = (
    "Own F1: at the method's own threshold. Our F1: at the two thresholds that coincidence sets on training scores "
    "without labels. Best F1: at the best threshold or pair of thresholds for the test labels, which nobody has in "
    "practice. Mean ± standard deviation over splits. A * marks methods that use labels in training. One-input "
    "methods are run on each input (score, stack) and on the stack (stack, score); the strategy with the better best "
    f"F1 is shown. {_SECONDS}"
)
#: The same for data without labels.
LEGEND_WITHOUT_LABELS = (
    "No labels: nothing can be judged. Flagged: the part of the test rows that a method flags, at the two thresholds that "
    "coincidence sets on training scores, or, where it has one score only, at its own. "
    f"{_SECONDS}"
)


def legend_of(lines: Sequence[Line]) -> str:
    """What the columns of these tables are."""
    both = ((True, LEGEND), (False, LEGEND_WITHOUT_LABELS))
    return " ".join(text for judged, text in both if any(line.judged == judged for line in lines))


HEAD = ("method", "strategy", "own F1", "our F1", "best F1", "av. prec.", "s")
_UNJUDGED = ("method", "strategy", "flagged", "s")


def head_of(lines: Sequence[Line]) -> tuple[str, ...]:
    """The head of the table of one data set."""
    return HEAD if any(line.judged for line in lines) else _UNJUDGED


def cells(line: Line, digits: int = 2) -> tuple[str, ...]:
    """What is printed of a line, under :func:`head_of`; a * marks methods that use labels in training."""

    def spread(value: tuple[float, float] | None) -> str:
        if value is None:
            return ""
        beside = f" ±{value[1]:.{digits}f}" if line.splits > 1 else ""  # one split has no spread
        return f"{value[0]:.{digits}f}{beside}"

    figures = (line.own, line.ours, line.best, line.average_precision) if line.judged else (line.flagged,)
    return (
        f"{line.title} *" if line.labels else line.title,
        _SHORT.get(line.strategy, line.strategy),
        *(spread(value) for value in figures),
        f"{line.seconds:.0f}",
    )


_SHORT = {SCORE_STACK: "score, stack", STACK_SCORE: "stack, score"}


def _fit_and_judge(
    data: BenchData, method: Method, sides: Sides, split: int, key: str, quick: bool
) -> list[Result]:
    start = time.monotonic()
    try:
        with warnings.catch_warnings():
            # What they say is in the row.
            warnings.simplefilter("ignore", CoadWarning)
            judged = _judge(data, method, sides, quick)
    except Exception as error:  # any failure of a peer is a row of its own, and must not stop the others
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {text}"[:200]
        return [
            Result(key, data.name, method.name, "", split, error=reason, seconds=time.monotonic() - start)
        ]
    seconds = time.monotonic() - start
    return [
        Result(
            key, data.name, method.name, one.strategy, split,
            one.own, one.ours, one.best, one.average_precision, seconds, "", one.flagged, one.note,
        )
        for one in judged
    ]  # fmt: skip


def _judge(data: BenchData, method: Method, sides: Sides, quick: bool) -> list[Judged]:
    train = sides.train
    if method.labels and train.label is None:
        raise InputError("it learns from labels, and the data have none")
    if method.labels and len(np.unique(np.asarray(train.label, dtype=bool))) < 2:
        raise InputError("it learns from labels, and all rows of this split have the same one")
    if method.kind == "coincidence":
        return [_coincidence(data, method, train, sides.test, quick, sides.seed)]
    if method.kind == "catalogue":
        return [_catalogue(method.make(sides.seed, quick, data.setting), train, sides.test)]
    rows = sides.reduced if method.reduced else sides.scaled
    if method.kind == "one input":
        return run_one_input(
            lambda: method.make(sides.seed, quick, data.setting),
            rows,
            healthy_only=method.labels == "healthy",
            either=data.either,
        )
    labels = method.labels == "all"
    setting = {**data.setting, **data.supervised} if labels else data.setting
    return run_two_inputs(method.make(sides.seed, quick, setting), rows, labels=labels, either=data.either)


def _coincidence(data: BenchData, method: Method, train: Any, test: Any, quick: bool, seed: int) -> Judged:
    """CoAD: ``own`` is its decision after training, ``ours`` with thresholds searched on training rows."""
    regimes = method.name == "coad"
    if data.fit_coad is not None:
        setting = {"epochs": 20, "n_seeds": 2} if quick else {}
        return data.fit_coad(train, test, regimes, seed, setting)
    known, new = (train.context, test.context) if regimes else (None, None)
    detector = method.make(seed, quick, data.setting)
    group = {"group": train.group} if train.group is not None else {}
    if group:
        detector.set_params(split="group")
    detector.fit(train.s, train.q, context=known, **group)
    p_s, p_q = detector.confidences(test.s, test.q, new)
    seen = detector.confidences(train.s, train.q, known)
    judged = judge_pair(seen, (p_s, p_q), test.label, own=detector.decide(p_s, p_q), context=known)
    status = detector.status_
    if status == SHARED_REGIME:
        status += ": the inputs share more than events; name the regime (--context), or see coad modes"
    return judged if status == FOUND else replace(judged, note=status)


def _catalogue(modes: CoincidenceModes, train: Pairs, test: Pairs) -> Judged:
    """What is in a rare mode is flagged; one score, and a decision of its own."""
    modes.fit(train)
    rows = modes.score_rows(test)
    judged = judge_single(rows.score, test.label, None, own=rows.flag)
    return replace(judged, strategy=JOINT, note="" if modes.status_ == FOUND else modes.status_)


def _line(data: str, method: Method, rows: list[Result], judged: bool) -> Line:
    good = [row for row in rows if not row.error]
    names = list(dict.fromkeys(row.strategy for row in good))

    def merit(strategy: str) -> float:
        values = [row.best for row in good if row.strategy == strategy and row.best is not None]
        # Without labels nothing can be compared: the strategy for which we can set thresholds.
        return float(np.mean(values)) if values else float(strategy == SCORE_STACK)

    strategy = max(names, key=merit) if names else ""
    chosen = [row for row in good if row.strategy == strategy]

    def spread(name: str) -> tuple[float, float] | None:
        values = [getattr(row, name) for row in chosen]
        known: FloatArray = np.array([value for value in values if value is not None], dtype=np.float64)
        if not len(known):
            return None
        return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else 0.0

    ours = spread("ours")
    if ours is None and good:
        # Thresholds without labels exist for two scores only: take them from the other strategy.
        chosen, kept = [row for row in good if row.ours is not None], chosen
        ours, chosen = spread("ours"), kept
    errors = dict.fromkeys(row.error for row in rows if row.error)
    return Line(
        data=data,
        method=method.name,
        title=method.title,
        strategy="" if strategy == JOINT else strategy,
        labels={"": "", "all": "yes", "healthy": "to train on healthy rows"}[method.labels],
        splits=len({row.split for row in good}),
        own=spread("own"),
        ours=ours,
        best=spread("best"),
        average_precision=spread("average_precision"),
        flagged=spread("flagged"),
        seconds=float(np.mean([row.seconds for row in chosen or rows])),
        error="; ".join(errors),
        judged=judged,
        note="; ".join(dict.fromkeys(row.note for row in good if row.note)),
    )


def _words(rows: Sequence[Result]) -> str:
    if rows[0].error:
        return f"failed: {rows[0].error}"
    row = max(rows, key=lambda one: -1.0 if one.best is None else one.best)
    values = [
        f"{name} F1 {value:.3f}"
        for name in ("own", "ours", "best")
        if (value := getattr(row, name)) is not None
    ]
    if not values and row.flagged is not None:
        values = [f"{row.flagged:.1%} flagged"]
    return f"{', '.join(values) or 'no labels to judge by'} ({row.seconds:.0f} s)"


def _merged(kept: Sequence[Result], rows: Sequence[Result]) -> list[Result]:
    """The store with the rows of this fit in place of older ones."""
    name = (rows[0].key, rows[0].method, rows[0].split)
    return [row for row in kept if (row.key, row.method, row.split) != name] + list(rows)


def _write_results(path: Path, rows: Sequence[Result]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"split": pa.int64(), "seconds": pa.float64()}
    kinds |= {name: pa.float64() for name in ("own", "ours", "best", "average_precision", "flagged")}
    schema = pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Result)])
    with written_whole(path) as draft:
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=schema), draft)


def _key(data: BenchData, quick: bool, seed: int) -> str:
    """A short name of data and settings; the number of splits is not part of it, so that one may add some."""
    setting, supervised = (
        sorted((name, getattr(value, "__name__", value)) for name, value in part.items())
        for part in (data.setting, data.supervised)
    )
    facts = (
        data.name, data.source, data.fingerprint, setting, supervised, data.either, quick, seed, __version__
    )  # fmt: skip
    text = "|".join(map(str, facts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
