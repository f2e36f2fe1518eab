"""The model and the settings of ``coad watch --demo``: networks for one station, which watch all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coad.cli._print import out
from coad.cli._progress import progress

__all__ = ["make_demo"]

_STATIONS = 81
_WINDOW = 60  # samples: half a second
#: Seconds of one station that are simulated for the training, with an event in every thirty: more than in the room, so that
#: a few minutes hold enough of them.
_SECONDS, _EVERY = 900, 30.0
#: Weight of recall: with 81 stations, a false alarm costs more than a window of an event that is missed.
_BETA = 0.2
_SETTINGS = """
[source]
kind = "coad.research.datasets.rf_control_room:ControlRoomSource"

[stations]
names = [{names}]

[time]
align = "nearest"
tolerance = "10ms"

[alarms]
latch = "2min"
min_pairs = 2

[page]
port = 0
"""


def make_demo(home: Path) -> tuple[Path, Path]:
    """Fit a model to a simulated station and beam, and write the settings that watch 81 of them.

    Parameters
    ----------
    home
        Where to write both.

    Returns
    -------
    model, config : Path
        The model folder, and ``watch.toml``.
    """
    from coad.data.layout import Layout
    from coad.learned.estimator import CoAD
    from coad.research.datasets.rf_control_room import BEAM_NAMES, ControlRoom, station_names
    from coad.workflows.model_folder import save_model
    from coad.workflows.recipe import Recipe

    out(
        f"A simulated control room: {_STATIONS} RF stations and one beam at 120 Hz. Two networks learn from one of the stations."
    )
    room = ControlRoom(1, every=_EVERY, random_state=1)
    amplitude, beam = room.step(_SECONDS * 120)
    s, q = (x.reshape(len(x), -1, _WINDOW).transpose(1, 0, 2).astype(np.float32) for x in (amplitude, beam))
    with progress("learning what is odd in both"):
        model = CoAD(beta=_BETA, n_starts=2, epochs=20, random_state=0).fit(s, q)
    layout = Layout(("amplitude",), BEAM_NAMES, time="time", window=_WINDOW, stride=_WINDOW)
    save_model(model, Recipe(layout), home / "model")
    config = home / "watch.toml"
    names = ", ".join(f'"{name}"' for name in station_names(_STATIONS))
    config.write_text(_SETTINGS.format(names=names), encoding="utf-8")
    return home / "model", config
