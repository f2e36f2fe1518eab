"""Fit a model on files: read (or map from disk), train, save, evaluate on held-out rows, test for regimes."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from coad.core.background import BackgroundKind
from coad.data.layout import Layout
from coad.data.memory import free_memory
from coad.data.pairs import Pairs
from coad.data.paths import find_files
from coad.exceptions import FileError, InputError
from coad.learned.training.progress import Progress
from coad.workflows.evaluating import Judgement, judge
from coad.workflows.model_folder import check_target, save_model
from coad.workflows.recipe import Clocks, Recipe
from coad.workflows.scored import read_scored
from coad.workflows.scoring import Source, rows_a_batch

if TYPE_CHECKING:
    from coad.learned.estimator import CoAD

__all__ = ["FitReport", "Training", "fit_files", "read_data", "split_of"]

OutOfCore = Literal["auto", "always", "never"]

#: Training holds a few copies of the data; data larger than this share of the free memory stay on disk.
_SHARE_OF_MEMORY = 0.2


@dataclass(frozen=True)
class Training:
    """Settings of a training; see :class:`coad.CoAD` for those of the same name."""

    beta: float = 1.0
    alpha: float | Literal["auto"] = "auto"
    n_starts: int = 4
    epochs: int | None = None
    random_state: int = 0
    split: Literal["auto", "random", "group", "time"] = "auto"
    ordered: bool = True
    out_of_core: OutOfCore = "auto"
    verbose: bool = False
    ensemble: bool = False
    background: BackgroundKind = "independent"
    #: Columns that are never suggested as a context.
    not_context: tuple[str, ...] = ()
    #: The number of this process if several train the model together; the first one saves it.
    rank: int | None = None
    #: What is spread over these processes.
    spread: Literal["rows", "starts"] = "rows"
    device: Literal["auto", "cpu", "cuda"] = "cpu"


@dataclass(frozen=True)
class FitReport:
    """A fitted model, how its files are read, and its evaluation."""

    model: CoAD
    recipe: Recipe
    summary: str
    n_pairs: int
    regimes: dict[str, int]
    on_disk: bool
    judgement: Judgement


@dataclass(frozen=True)
class _Data:
    pairs: Pairs
    recipe: Recipe
    summary: str
    on_disk: bool = False


def fit_files(
    source: Source, layout: Layout, output: Path, *, clocks: Clocks | None = None, training: Training
) -> FitReport:
    """Fit a :class:`~coad.CoAD` on files and save it.

    Parameters
    ----------
    source : Source
        The files.
    layout : Layout
        Which columns are what; the label column is not read.
    output : Path
        Folder for the model and its layout.
    clocks : Clocks, optional
        How two files with their own times are aligned.
    training : Training
        Settings of the training.

    Returns
    -------
    FitReport
    """
    from coad.learned.estimator import CoAD

    target = check_target(output)
    source.check()
    label, layout = layout.label, layout.without_label()
    if training.split == "group" and layout.group is None:
        raise InputError("--split group needs --group, the column of run or batch IDs")
    with ExitStack() as stack:
        with Progress("reading"):
            data = read_data(source, layout, clocks, training.out_of_core, target, stack)
        pairs = data.pairs
        how, group = split_of(pairs, training.split)
        model = CoAD(
            training.beta,
            alpha=training.alpha,
            n_starts=training.n_starts,
            ensemble=training.ensemble,
            background=training.background,
            epochs=training.epochs,
            split=how,
            ordered=training.ordered,
            random_state=training.random_state,
            device=training.device,
            distributed=training.rank is not None and training.spread,
            verbose=training.verbose,
        )
        model.fit(pairs.with_group(group))
        recipe = replace(data.recipe, not_context=(*training.not_context, *([label] if label else ())))
        if not training.rank:
            save_model(model, recipe, target)
    with Progress(
        "testing against chance"
    ):  # the same reading, scoring and judging as in every other command
        scored = read_scored(model, recipe, source, inputs=False)
        judgement = judge(model, recipe, source, scored, held=model.validation_rows_)
    regimes: dict[str, int] = {}
    if scored.code is not None:
        counts = np.bincount(scored.code, minlength=len(scored.contexts)).tolist()
        regimes = dict(zip(scored.regime_names, counts, strict=True))
    return FitReport(model, recipe, data.summary, len(scored), regimes, data.on_disk, judgement)


def read_data(
    source: Source,
    layout: Layout,
    clocks: Clocks | None,
    out_of_core: OutOfCore,
    target: Path,
    stack: ExitStack,
) -> _Data:
    """Read the pairs into memory, or to a temporary folder on disk that ``stack`` removes."""
    if source.two_clocks:
        from coad.data.clocks import read_two_clocks

        clocks = clocks or Clocks()
        assert source.s is not None
        assert source.q is not None
        both = read_two_clocks(
            source.s, source.q, layout, how=clocks.how, tolerance=clocks.tolerance, time_q=clocks.time_q
        )
        recipe = Recipe(both.layout, clocks, both.means)
        return _Data(both.pairs, recipe, _aligned(both.alignment, both.pairs))
    files = find_files(source.files or [])
    if out_of_core == "always" or (
        out_of_core == "auto" and _bytes(files, layout) > _SHARE_OF_MEMORY * free_memory()
    ):
        return _spooled(files, layout, target, stack)
    from coad.data.read import load

    loaded = load(source.files, layout)
    return _Data(loaded.pairs, Recipe(loaded.layout, means=dict(loaded.means)), loaded.summary)


def _spooled(files: list[Path], layout: Layout, target: Path, stack: ExitStack) -> _Data:
    """Write the pairs to a temporary folder beside the model."""
    from coad.data.read import resolve_by_files
    from coad.data.spool import spool_pairs

    layout = resolve_by_files(files, layout, None)
    means = _means(files, layout.signals)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".coad-", dir=target.parent))
    except OSError as error:
        raise FileError(f"cannot write in {target.parent}: {error.strerror or error}") from error
    rows = rows_a_batch(layout)
    pairs, settled = spool_pairs(list(files), layout, folder, batch_rows=rows, means=means)
    parts = [f"{pairs.windows.n_rows if pairs.windows is not None else len(pairs):,} rows"]
    if pairs.windows is not None:
        parts.append(f"{len(pairs):,} windows of {pairs.windows.length:,}")
    if pairs.context is not None:
        parts.append(f"{len(np.unique(pairs.context)):,} contexts")
    return _Data(pairs, Recipe(settled, means=means), ", ".join(parts), on_disk=True)


def _means(files: list[Path], names: list[str]) -> dict[str, Any]:
    """The mean of the known values of each column, in one pass."""
    from coad.data.tables import iter_columns

    total: dict[str, Any] = dict.fromkeys(names, 0.0)
    count: dict[str, Any] = dict.fromkeys(names, 0)
    for batch in iter_columns(list(files), names):
        for name, values in batch.items():
            known = np.isfinite(values)
            total[name] = total[name] + np.where(known, values, 0.0).sum(axis=0)
            count[name] = count[name] + known.sum(axis=0)
    empty = [name for name in names if not np.all(count[name])]
    if empty:
        raise InputError(f"column {empty[0]!r} has no values; leave it out")
    return {name: np.asarray(total[name] / count[name]).tolist() for name in names}


def _aligned(alignment: Any, pairs: Pairs) -> str:
    parts = [f"{alignment.n_s:,} rows of s and {alignment.n_q:,} of q"]
    if alignment.dropped_s:
        parts.append(f"{alignment.dropped_s:,} rows of s with no row of q within {alignment.tolerance}")
    if pairs.windows is not None:
        parts.append(f"{len(pairs):,} windows of {pairs.windows.length:,}")
    else:
        parts.append(f"{len(pairs):,} pairs")
    return ", ".join(parts)


def split_of(pairs: Pairs, split: str) -> tuple[Any, NDArray[Any] | None]:
    """How rows are held out, and the groups."""
    if split == "auto" and pairs.group is not None and len(np.unique(pairs.group)) >= 5:
        split = "group"
    return ("random", None) if split == "auto" else (split, pairs.group)


def _bytes(files: list[Path], layout: Layout) -> float:
    """Estimated size of the pairs in memory."""
    from coad.data.read import resolve_by_files
    from coad.data.tables import table_bytes

    columns = len(resolve_by_files(files, layout, None).signals)
    size = sum(table_bytes(path, columns) for path in files)
    if isinstance(layout.window, int) and isinstance(layout.stride, int):
        size *= max(1.0, layout.window / layout.stride)
    return size
