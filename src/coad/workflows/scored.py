"""The scored pairs of some files with their times, contexts and (for pages) inputs: what every command evaluates."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray, FloatArray, IntArray
from coad.core.assessment import RowScores
from coad.core.runs import RowOrder
from coad.data.build import regime_names
from coad.data.times import time_text
from coad.events.runs import Events, find_events
from coad.exceptions import FileError, InputError
from coad.workflows.recipe import Recipe
from coad.workflows.scoring import (
    Numbering,
    Source,
    iter_confidences,
    known_contexts,
    no_pairs,
    unseen_contexts,
)

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["RowStore", "Scored", "read_scored", "sampled"]

#: Inputs of more bytes than this go to a temporary file.
_IN_MEMORY = 600_000_000


class RowStore:
    """Rows of one shape that are added in blocks and read one by one, in memory or on disk.

    >>> store = RowStore()
    >>> store.add(np.arange(6.0).reshape(3, 2))
    >>> store.rows([2, 0]).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._blocks: list[NDArray[np.float32]] = []
        self._starts: list[int] = []
        self._file: Any = None
        self._room = in_memory
        self._whole: NDArray[np.float32] | None = None
        self.shape: tuple[int, ...] = ()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        block = np.ascontiguousarray(rows, dtype=np.float32)
        self.shape = block.shape[1:]
        self._n += len(block)
        if self._file is None and self._room >= block.nbytes:
            self._room -= block.nbytes
            self._blocks.append(block)
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="coad-")  # noqa: SIM115 (lives as long as this)
                for old in self._blocks:
                    old.tofile(self._file)
                self._blocks = []
            block.tofile(self._file)
        except OSError as error:
            raise FileError(
                f"no room for the inputs in {tempfile.gettempdir()}: {error.strerror or error}"
            ) from error

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        return self.rows(index)

    def rows(self, index: Any) -> NDArray[np.float32]:
        """The rows of these numbers."""
        if self._whole is None:
            if self._file is not None:
                self._file.flush()
                self._whole = np.memmap(self._file, dtype=np.float32, mode="r", shape=(self._n, *self.shape))
            else:
                self._whole = self._blocks[0] if len(self._blocks) == 1 else np.concatenate(self._blocks)
                self._blocks = [self._whole]
        return np.asarray(self._whole[np.asarray(index, dtype=np.int64)])


class SomeRows(RowStore):
    """Some rows of another store."""

    def __init__(self, store: RowStore, kept: IntArray) -> None:
        super().__init__()
        self._store, self._kept = store, kept
        self.shape, self._n = store.shape, len(kept)

    def rows(self, index: Any) -> NDArray[np.float32]:
        """The rows of these numbers, counted among those kept."""
        return self._store.rows(self._kept[np.asarray(index, dtype=np.int64)])


@dataclass(frozen=True)
class Scored:
    """Every pair's confidences, decision and origin; the inputs themselves are in ``s`` and ``q``, if they were kept."""

    p_s: FloatArray
    p_q: FloatArray
    score: FloatArray
    flag: BoolArray  # by the model's rule
    s: RowStore
    q: RowStore
    s_names: tuple[str, ...]
    q_names: tuple[str, ...]
    first: IntArray  # source rows, counted within each file
    last: IntArray
    file: IntArray
    files: tuple[str, ...]
    windows: bool
    overlap: int = 1
    n_rows: int = 0
    time: NDArray[Any] | None = None
    id: NDArray[Any] | None = None
    label: BoolArray | None = None
    contexts: tuple[Any, ...] = ()  # as the model knows them
    regime_names: tuple[str, ...] = ()  # the same, for people
    code: IntArray | None = None  # of the context of each pair
    run: IntArray | None = None  # of the file and group of each pair
    cut: BoolArray | None = None  # pairs before which others were left out
    mode: IntArray | None = None
    n_dismissed: int = 0  # pairs of dismissed kinds, which are left out
    unseen: tuple[tuple[str, int], ...] = ()
    bad_files: tuple[tuple[Path, FileError], ...] = ()

    def __len__(self) -> int:
        return len(self.p_s)

    @property
    def what(self) -> str:
        """What pairs are called: "windows" or "pairs"."""
        return "windows" if self.windows else "pairs"

    @property
    def scores(self) -> RowScores:
        """Confidences, score and decision of each pair."""
        return RowScores(self.p_s, self.p_q, self.score, self.flag, self.mode)

    @cached_property
    def order(self) -> RowOrder:
        """Where the pairs stand in time."""
        run = self.file if self.run is None else self.run
        return RowOrder(len(self), self.time, run, self.first, self.overlap, self.cut)

    @cached_property
    def breaks(self) -> BoolArray:
        """Where an event must end: at another file or group, at a gap, or where time goes back."""
        return self.order.breaks()

    def part(self, kept: IntArray) -> Scored:
        """The pairs of these numbers, ascending."""
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[kept] for name in _PER_PAIR
        }
        parts |= {name: SomeRows(store, kept) for name, store in (("s", self.s), ("q", self.q)) if len(store)}
        return replace(self, **parts, cut=self.order.take(kept).cut)

    def flags(self, threshold_s: float, threshold_q: float) -> BoolArray:
        """Pairs that reach both thresholds."""
        return np.asarray((self.p_s >= threshold_s) & (self.p_q >= threshold_q))

    def events(self, flags: BoolArray) -> Events:
        """The runs of flagged pairs."""
        return find_events(flags, self.score, self.breaks)

    def labels(self, pairs: Any = slice(None)) -> NDArray[Any] | None:
        """The contexts of some pairs, as the model knows them."""
        return None if self.code is None else np.array(self.contexts)[self.code[pairs]]

    def context_of(self, pair: int) -> str | None:
        """The name of a pair's regime."""
        return None if self.code is None else self.regime_names[int(self.code[pair])]

    def time_text(self, pair: int) -> str | None:
        """The time of a pair as text."""
        return None if self.time is None else time_text(self.time[pair])


#: The fields of :class:`Scored` with one value per pair that are read from files.
_PER_PAIR = (
    "p_s",
    "p_q",
    "score",
    "flag",
    "mode",
    "first",
    "last",
    "file",
    "time",
    "id",
    "label",
    "code",
    "run",
)


def sampled(places: NDArray[Any], most: int) -> NDArray[Any]:
    """A fixed random sample of at most ``most``, in order, so that the same data give the same page."""
    if len(places) <= most:
        return places
    return np.sort(np.random.default_rng(0).choice(places, most, replace=False))


def read_scored(
    model: CoAD,
    recipe: Recipe,
    source: Source,
    *,
    label: str | None = None,
    inputs: bool = True,
    everything: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Scored:
    """Score files with a model, and keep the origin of each pair. Pairs of dismissed kinds are left out.

    Parameters
    ----------
    model, recipe, source : CoAD or CoincidenceModes, Recipe, Source
        The model, how it reads files, and the files.
    label : str, optional
        A column of labels, for judging only.
    inputs : bool
        Whether the inputs are kept too, for pages.
    everything : bool
        Whether pairs of dismissed kinds and ignored findings are kept as well; they are not flagged.
    progress : function, optional
        Called with the number of rows read.

    Returns
    -------
    scored : Scored
    """
    if label is not None and label in recipe.layout.signals:
        raise InputError(f"column {label!r} is the label and also an input; labels are for judging only")
    known = known_contexts(model, recipe)
    s, q = RowStore(), RowStore()
    kept: dict[str, list[NDArray[Any]]] = {name: [] for name in (*_PER_PAIR, "dismissed")}
    numbers, runs = Numbering(), Numbering()
    unseen: Counter[str] = Counter()
    files: dict[str, int] = {}
    bad_files: list[tuple[Path, FileError]] = []
    part = None
    n_rows, overlap = 0, 1
    for part in iter_confidences(
        model, recipe, source, label=label, on_bad_file=lambda path, error: bad_files.append((path, error))
    ):
        pairs = part.pairs
        if inputs:
            s.add(pairs.s)
            q.add(pairs.q)
        number = files.setdefault(str(part.path), len(files))
        found = {
            **part.scores._asdict(),
            "first": part.first,
            "last": part.last,
            "file": np.full(len(pairs), number, dtype=np.int32),
            "time": pairs.time,
            "id": pairs.id,
            "label": pairs.label,
        }
        found["run"] = runs.of_part(part)
        context = model.known_context(pairs.s, pairs.q, pairs.context)
        if context is not None:
            found["code"] = numbers.of(np.asarray(context))
        unseen.update(unseen_contexts(pairs.context, known))
        for name, values in found.items():
            if values is not None:
                kept[name].append(values)
        if pairs.windows is not None and len(pairs) > 1:
            overlap = max(overlap, pairs.windows.overlap)
        n_rows = part.rows_read
        if progress is not None:
            progress(n_rows)
    if part is None:
        raise no_pairs(bad_files)
    joined = {name: _joined(parts, name) for name, parts in kept.items()}
    truth, dismissed = joined["label"], joined.pop("dismissed")
    if truth is not None and truth.dtype.kind not in "biuf":
        raise InputError(
            f"column {label!r} holds {'text' if truth.dtype.kind == 'U' else truth.dtype}; labels are numbers or "
            "true/false (0 or false: normal)"
        )
    joined["label"] = None if truth is None else np.asarray(truth != 0)
    scored = Scored(
        **joined,
        s=s,
        q=q,
        s_names=part.pairs.s_names or tuple(recipe.layout.s),
        q_names=part.pairs.q_names or tuple(recipe.layout.q),
        files=tuple(files),
        windows=part.pairs.windows is not None,
        overlap=overlap,
        n_rows=n_rows,
        contexts=tuple(numbers.names),
        regime_names=tuple(regime_names(list(numbers.names), recipe.layout, joined["time"])),
        unseen=tuple(unseen.most_common()),
        bad_files=tuple(bad_files),
    )
    if everything or dismissed is None or not dismissed.any():
        return scored
    return replace(scored.part(np.flatnonzero(~dismissed)), n_dismissed=int(dismissed.sum()))


def joined_scored(parts: Sequence[Scored], recipe: Recipe) -> Scored:
    """The scored pairs of different files as one: what :func:`read_scored` gives for all of them.

    Parameters
    ----------
    parts : sequence of Scored
        Without inputs.
    recipe : Recipe
        How their files were read.

    Returns
    -------
    scored : Scored
    """
    numbers = Numbering()
    joined: dict[str, Any] = {}
    for name in _PER_PAIR:
        values = [getattr(part, name) for part in parts]
        if all(one is not None for one in values):
            joined[name] = _joined(values, name)
    if "code" in joined:
        joined["code"] = np.concatenate([numbers.of(np.array(part.contexts)[part.code]) for part in parts])
    for name, sizes in (
        ("file", [len(part.files) for part in parts]),
        ("run", [_runs(part) for part in parts]),
    ):
        before = np.cumsum([0, *sizes[:-1]])
        joined[name] = np.concatenate(
            [getattr(part, name) + start for part, start in zip(parts, before, strict=True)]
        )
    unseen: Counter[str] = Counter()
    for part in parts:
        unseen.update(dict(part.unseen))
    return replace(
        parts[0],
        **joined,
        files=tuple(path for part in parts for path in part.files),
        overlap=max(part.overlap for part in parts),
        n_rows=sum(part.n_rows for part in parts),
        contexts=tuple(numbers.names),
        regime_names=tuple(regime_names(list(numbers.names), recipe.layout, joined.get("time"))),
        n_dismissed=sum(part.n_dismissed for part in parts),
        unseen=tuple(unseen.most_common()),
        bad_files=tuple(bad for part in parts for bad in part.bad_files),
    )


def _runs(part: Scored) -> int:
    return 0 if part.run is None or len(part.run) == 0 else int(part.run.max()) + 1


def _joined(parts: list[NDArray[Any]], name: str) -> Any:
    from coad.data.tables import joined_parts

    return joined_parts(parts, name) if parts else None
