"""The simulated control room, and ``coad watch --demo`` on it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

from coad.live.protocols import Wanted
from coad.research.datasets.rf_control_room import (
    BEAM_NAMES,
    ControlRoom,
    ControlRoomSettings,
    ControlRoomSource,
)


def test_a_dip_of_a_station_moves_the_beam_and_a_fault_of_a_readback_does_not():
    room = ControlRoom(5, every=10.0, random_state=0)
    amplitude, beam = (
        np.concatenate(parts, axis=1) for parts in zip(*(room.step(600) for _ in range(60)), strict=True)
    )
    assert amplitude.shape == (5, 36_000)
    seconds = amplitude.reshape(5, -1, 120).mean(axis=2)
    moved = np.abs(beam[3].reshape(-1, 120).mean(axis=1)) > 0.05
    low = (seconds < 98.5).any(axis=0)
    assert 0.05 < low.mean() < 0.5
    assert moved[low].mean() > 1.5 * moved[~low].mean(), "a station's dip moves the beam"
    assert (low & ~moved).any(), "a fault of a readback alone does not"


def test_the_room_comes_in_real_time_with_a_chunk_for_each_stream():
    wanted = Wanted({"K01": ("amplitude",), "K02": ("amplitude",), "witness": BEAM_NAMES})
    source = ControlRoomSource(ControlRoomSettings(), wanted)
    start, found = time.time_ns(), []
    for chunk in source.chunks():
        found += [chunk] if chunk is not None else []
        if len(found) == 9:
            break
    source.close()
    assert [chunk.stream for chunk in found] == ["K01", "K02", "witness"] * 3
    assert set(found[2].columns) == set(BEAM_NAMES)
    assert time.time_ns() >= found[-1].time[-1], "no sample is from the future"
    assert 0.5 < (found[-1].time[-1] - start) / 1e9 < 0.7
    gaps = np.diff(np.concatenate([chunk.time for chunk in found[::3]]))
    np.testing.assert_allclose(gaps, 1e9 / 120, atol=1e3)


@pytest.mark.slow
def test_the_demo_serves_81_stations_and_raises_an_alarm(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("fastapi", reason="the page needs fastapi: pip install 'coad[live]'")
    command = [sys.executable, "-m", "coad", "watch", "--demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as demo:
        try:
            said = iter(demo.stdout.readline, "")
            address = next(found[1] for line in said if (found := re.match(r"page: (\S+)", line)))
            end, state = time.monotonic() + 120, {"alarms": []}
            while not state["alarms"]:
                assert time.monotonic() < end, state["now"]
                time.sleep(0.5)
                with urllib.request.urlopen(f"{address}api/state?station=K05", timeout=30) as answer:
                    state = json.load(answer)
            assert len(state["stations"]) == 81
            assert set(state["waves"]["q"]) == set(BEAM_NAMES)
            demo.send_signal(signal.SIGINT)
            assert demo.wait(60) == 0
        finally:
            demo.kill()
