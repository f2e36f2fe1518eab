"""The watch in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from coad.live.reading import WatchState

__all__ = ["metrics"]

#: Metric: its type and its help.
_HELP = {
    "coad_up": ("gauge", "1 while the watch runs."),
    "coad_lag_seconds": ("gauge", "Seconds since the last samples came."),
    "coad_watermark_seconds": ("gauge", "Event time up to which everything was handled."),
    "coad_engine_total": ("counter", "Counts of the engine: samples, pairs, flagged, refused."),
    "coad_source_total": ("counter", "Counts of the source: received, malformed, dropped."),
    "coad_source_connected": ("gauge", "1 where the source of a stream can be reached."),
    "coad_stations": ("gauge", "Stations in each state."),
    "coad_alarms": ("gauge", "Alarms in each state, without those that are cleared."),
    "coad_alarms_confirmed_total": ("counter", "Alarms that people marked as confirmed."),
    "coad_alarms_marked_total": ("counter", "Alarms that people marked as confirmed or false."),
    "coad_output_behind": ("gauge", "Records that an output has not taken yet."),
    "coad_output_failing": ("gauge", "1 while an output fails."),
    "coad_drift_psi": ("gauge", "Population stability index of an input against training."),
}


def metrics(watch: WatchState) -> str:
    """The page that Prometheus reads.

    Parameters
    ----------
    watch
        The watch.

    Returns
    -------
    str
    """
    shown, store = watch.snapshot(), watch.store
    confirmed, marked = store.precision()
    states = Counter(one["state"] for one in shown["stations"].values())
    alarms = Counter(one["state"] for one in store.alarms() if one["state"] != "cleared")
    source = shown["source"]
    values: dict[str, Iterable[tuple[dict[str, str], float]]] = {
        "coad_up": [({}, float(shown["status"] == "running"))],
        "coad_lag_seconds": [({}, shown["lag_s"])],
        "coad_watermark_seconds": [({}, (shown["time"] or 0) / 1e9)],
        "coad_engine_total": _by("name", store.counters()),
        "coad_source_total": _by("name", source["counters"]),
        "coad_source_connected": _by("stream", source["connected"]),
        "coad_stations": _by("state", states),
        "coad_alarms": _by("state", alarms),
        "coad_alarms_confirmed_total": [({}, confirmed)],
        "coad_alarms_marked_total": [({}, marked)],
        "coad_output_behind": [({"output": name}, one["behind"]) for name, one in shown["outputs"].items()],
        "coad_output_failing": [
            ({"output": name}, float(bool(one["error"]))) for name, one in shown["outputs"].items()
        ],
        "coad_drift_psi": [
            ({name: str(line.get(name) or "") for name in ("station", "name", "context")}, line["psi"])
            for line in store.drift()
            if line.get("psi") is not None
        ],
    }
    lines = []
    for metric, (kind, text) in _HELP.items():
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        lines += [f"{metric}{_labels(labels)} {float(value):.17g}" for labels, value in values[metric]]
    return "\n".join(lines) + "\n"


def _by(label: str, counts: Mapping[str, Any]) -> list[tuple[dict[str, str], float]]:
    return [({label: name}, float(value)) for name, value in sorted(counts.items())]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    shown = [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return "{" + ",".join(shown) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
