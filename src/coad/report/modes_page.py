"""The page of a catalogue: every mode with its statistics, exemplars, rows in time, and the regime it occurs in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coad._typing import BoolArray
from coad.data.build import regime_names
from coad.data.layout import Layout
from coad.data.pairs import Pairs
from coad.modes.transforms import describe_transforms
from coad.report.modes_figures import exemplars_figure, sizes_figure, time_figure
from coad.report.page import Section, write_page

if TYPE_CHECKING:
    from coad.modes.estimator import CoincidenceModes

__all__ = ["write_modes_page"]


def write_modes_page(model: CoincidenceModes, pairs: Pairs, layout: Layout, path: Path) -> None:
    """Write the page of a catalogue to ``path``.

    Parameters
    ----------
    model : CoincidenceModes
        The fitted catalogue.
    pairs : Pairs
        The pairs of the fit.
    layout : Layout
        The columns that they were made from.
    path : Path
        The HTML file.
    """
    table = model.modes_
    if not table:
        verdict = f"No coincident modes among {len(pairs):,} pairs: {model.reason_}."
        write_page(path, "Coincident modes", verdict, [], _NOTE)
        return
    labels = model.predict_mode(pairs.s, pairs.q, pairs.context)
    rare = len(table.rare)
    sections = [
        Section(
            "The catalogue",
            "Rare modes first, then by size. P̂ is the fraction of a mode's joint rows that is not explained by chance, "
            "support the fraction of all rows that it explains beyond chance. Stability is the overlap of the mode with "
            "its counterpart in each ensemble member, 0 to 1.",
            sizes_figure(table),
            table=(
                ("mode", "role", "rows", "size", "P̂", "support", "p-value", "stability"),
                [
                    (
                        str(mode.mode),
                        mode.role,
                        f"{mode.rows:,}",
                        f"{mode.size:.2%}",
                        f"{mode.precision_hat:.2f}",
                        f"{mode.support:.2%}",
                        mode.p_value_text,
                        f"{mode.stability:.2f}",
                    )
                    for mode in table
                ],
            ),
        ),
        Section(
            "Modes in time",
            "Each mark is a row; regimes are thinned.",
            time_figure(table, labels, pairs.time),
        ),
    ]
    for mode in table:
        text = f"{mode.role}: {mode.reason}. "
        text += _regime_text(labels == mode.mode, pairs, layout)
        text += (
            f" Rows with the most evidence: {', '.join(_row(row, pairs.time) for row in mode.exemplars[:4])}."
        )
        picture = exemplars_figure(mode, pairs.s, pairs.q, (pairs.s_names, pairs.q_names))
        sections.append(Section(f"Mode {mode.mode}", text, picture))
    disagree = float((labels < 0).mean())
    write_page(
        path,
        "Coincident modes",
        f"{len(table)} modes among {len(pairs):,} pairs, {rare} of them rare; in {disagree:.1%} of the rows the "
        "two inputs disagree. No labels were used.",
        sections,
        f"{_NOTE} {describe_transforms(model.transforms_).capitalize()}".strip(),
    )


_NOTE = "P̂, support and p-values are computed on held-out rows."


def _row(row: int, time: NDArray[Any] | None) -> str:
    """The number and the time of a row."""
    if time is None:
        return f"{row:,}"
    when = time[row]
    words = np.datetime_as_string(when, unit="s").replace("T", " ") if time.dtype.kind == "M" else f"{when:g}"
    return f"{row:,} ({words})"


def _regime_text(own: BoolArray, pairs: Pairs, layout: Layout) -> str:
    """The known regime in which a mode is most over-represented, if there is a context."""
    if pairs.context is None or not own.any():
        return ""
    values, code = np.unique(pairs.context, return_inverse=True)
    inside = np.bincount(code[own], minlength=len(values)) / own.sum()
    overall = np.bincount(code, minlength=len(values)) / len(code)
    best = int(np.argmax(inside - overall))
    name = regime_names(values[best : best + 1].tolist(), layout, pairs.time)[0]
    return f"{inside[best]:.0%} of its rows are in the regime {name}, of all rows {overall[best]:.0%}."
