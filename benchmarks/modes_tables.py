"""Coincident modes on labelled tables: quality, agreement of two random states, time. Labels judge, nothing else."""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks._results import record, table
from coad import CoincidenceModes
from coad._typing import BoolArray, IntArray
from coad.core.labels import f1
from coad.exceptions import CoadWarning

#: Tables (``.npz`` with s, q, y and where known context, group and time) are in this folder of ``COAD_DATA``.
FOLDER = "tables"
STATES = (0, 1)


def run() -> None:
    folder = Path(os.environ.get("COAD_DATA", ".")) / FOLDER
    if not folder.is_dir():
        print(f"left out: there is no folder {folder}", flush=True)
        return
    rows = [measured(path) for path in sorted(folder.glob("*.npz"))]
    body = table(
        ("table", *(f"F1, {state}" for state in STATES), "modes", "agreement", "seconds (processor)"),
        [
            (
                row["table"],
                *(f"{value:.2f}" for value in row["f1"]),
                " / ".join(map(str, row["modes"])),
                f"{row['agreement']:.2f}",
                f"{np.mean(row['seconds']):.0f}",
            )
            for row in rows
        ],
    )
    quality = np.mean([row["f1"] for row in rows])
    agreement = np.median([row["agreement"] for row in rows])
    seconds = sum(np.mean(row["seconds"]) for row in rows)
    record(
        "modes-tables",
        "Coincident modes: labelled tables",
        f"F1 of all modes whose majority is the labelled class together, on the rows of the fit, for random states "
        f"0 and 1; agreement is the adjusted Rand index of their catalogues.\n\n{body}\n\n"
        f"Mean F1 {quality:.2f}, median agreement {agreement:.2f}, {seconds:.0f} s of one processor for one catalogue of each table.",
    )


def measured(path: Path) -> dict[str, Any]:
    """Quality, number of modes and time of each random state on one table, and how well two states agree."""
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    known = {name: data[name] for name in ("context", "group", "time") if name in data}
    labels, seconds = [], []
    for state in STATES:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoadWarning)
            model = CoincidenceModes(ordered="time" in data, random_state=state)
            model.fit(data["s"], data["q"], **known)
        seconds.append(time.process_time() - started)
        labels.append(model.labels_)
    found = {
        "table": path.stem,
        "f1": [majority_f1(own, data["y"]) for own in labels],
        "modes": [len(np.unique(own[own >= 0])) for own in labels],
        "agreement": float(adjusted_rand_score(*labels)),
        "seconds": seconds,
    }
    print(json.dumps(found), flush=True)
    return found


def majority_f1(labels: IntArray, y: BoolArray) -> float:
    """F1 of all modes together of which more than half of the rows are labelled.

    >>> majority_f1(np.array([0, 0, 1, 1, -1]), np.array([True, True, True, False, True]))
    0.6666666666666666
    """
    chosen = [k for k in range(int(labels.max()) + 1) if (own := y[labels == k]).size and own.mean() > 0.5]
    return float(f1(y, np.isin(labels, chosen)))
