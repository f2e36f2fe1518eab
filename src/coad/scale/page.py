"""The page of many sources: a map of them, the worst first, and a line for each."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from coad.core.validation import LEVEL
from coad.report.page import Section, write_page

__all__ = ["write_sources_page"]


def write_sources_page(path: Path, results: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
    """Write the page beside the model folders of :func:`coad.scale.each.fit_each`."""
    sure = [one for one in results if one["p_holm"] is not None and one["p_holm"] <= LEVEL]
    verdict = f"{len(sure):,} of {len(results):,} sources show coincidence beyond chance"
    if errors:
        verdict += f"; {len(errors):,} have no model"
    head = ("source", "status", "rows", "flagged", "findings", "F̂", "p", "p (Holm)", "seconds", "error")
    rows = [
        (
            one["source"],
            one["status"],
            f"{one['rows']:,}",
            f"{one['flagged']:,}",
            f"{one['findings']:,}",
            f"{one['fbeta_hat']:.2f}",
            *("" if one[name] is None else f"{one[name]:.2g}" for name in ("p", "p_holm")),
            f"{one['seconds']:.1f}",
            one["error"],
        )
        for one in results
    ]
    write_page(
        path,
        f"{len(results):,} sources",
        verdict,
        [
            Section(
                "Map",
                "A field for each source, the worst first; the darker, the more of its rows are flagged.",
                html=_map(results),
                anchor="map",
            ),
            Section("Sources", "p (Holm) allows for their number.", table=(head, rows), anchor="sources"),
        ],
        "One model folder for each source lies beside this page; index.json lists them.",
        tone="good" if sure else "none",
    )


def _map(results: list[dict[str, Any]]) -> str:
    most = max((one["flagged"] / max(one["rows"], 1) for one in results), default=0.0)
    return "<p class='sources'>" + " ".join(_field(one, most) for one in results) + "</p>"


def _field(one: dict[str, Any], most: float) -> str:
    share = one["flagged"] / max(one["rows"], 1)
    depth = 0 if most == 0 else round(70 * share / most)
    title = one["error"] or f"{one['status']}, {one['flagged']:,} rows flagged"
    colour = "background:repeating-linear-gradient(45deg,#8884,#8884 4px,transparent 4px,transparent 8px)"
    if not one["error"]:
        colour = f"background:color-mix(in srgb, #c0392b {depth}%, transparent)"
    style = f"display:inline-block;padding:.2em .5em;margin:.1em;border:1px solid #8888;{colour}"
    return f"<span style='{style}' title='{escape(title)}'>{escape(one['source'])}</span>"
