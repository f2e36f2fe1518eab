"""EPICS PVAccess end to end: real servers and clients of p4p on the loopback address."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

pytest.importorskip("p4p", reason="EPICS needs p4p: pip install 'coad[epics]'")

from p4p import Value
from p4p.client.thread import Context
from p4p.nt import NTScalar, NTTable
from p4p.server import Server, StaticProvider
from p4p.server.thread import SharedPV

from coad.live.outputs.epics import EpicsOutput, EpicsOutputSettings
from coad.live.protocols import Record, Wanted
from coad.live.sources.epics import EpicsSource, EpicsSourceSettings

FLOAT = NTScalar("d").type
LOOPBACK = {
    "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
    "EPICS_PVA_ADDR_LIST": "127.0.0.1",
    "EPICS_PVA_AUTO_ADDR_LIST": "0",
    "EPICS_PVA_SERVER_PORT": "0",
    "EPICS_PVA_BROADCAST_PORT": "0",
}


def scalar(value, at, severity=0):
    stamp = {"secondsPastEpoch": at // 10**9, "nanoseconds": at % 10**9}
    return Value(FLOAT, {"value": value, "alarm": {"severity": severity}, "timeStamp": stamp})


@pytest.fixture
def served():
    """Two scalar PVs and a table, and the settings to find them."""
    table = NTTable([("time", "d"), ("x", "d"), ("count", "l")])
    pvs = {
        "RF:K01:amplitude": SharedPV(initial=scalar(99.0, 10**18)),
        "RF:K01:phase": SharedPV(initial=scalar(1.0, 10**18)),
        "BEAM": SharedPV(nt=table, initial=[]),
    }
    provider = StaticProvider("test")
    for name, pv in pvs.items():
        provider.add(name, pv)
    with Server([provider], conf=LOOPBACK, useenv=False) as server:
        yield pvs, dict(server.conf())


def collect(source, enough, seconds=30):
    """Chunks of a source until there are enough of them."""
    found, end = [], time.monotonic() + seconds
    for chunk in source.chunks():
        found += [chunk] if chunk is not None else []
        if enough(found):
            break
        assert time.monotonic() < end, f"only {found}"
    return found


def samples(chunks, stream, column):
    mine = [chunk for chunk in chunks if chunk.stream == stream and column in chunk.columns]
    return np.concatenate([chunk.columns[column] for chunk in mine] or [np.empty(0)])


def test_scalars_and_tables_arrive_with_their_own_times_and_a_burst_loses_nothing(served):
    pvs, environment = served
    wanted = Wanted({"K01": ("amplitude", "phase"), "witness": ("x",)})
    settings = EpicsSourceSettings(
        {"*": "RF:{stream}:{column}", "witness": "BEAM"}, sequence="count", environment=environment
    )
    source = EpicsSource(settings, wanted)
    try:
        reading = source.chunks()
        first = next(chunk for chunk in reading if chunk is not None)
        assert first.stream == "K01"
        assert first.time[0] == 10**18
        while not all(source.connected().values()):
            next(reading)
        for k in range(100):
            pvs["RF:K01:amplitude"].post(scalar(float(k), 2 * 10**18 + k))
        pvs["RF:K01:phase"].post(scalar(5.0, 3 * 10**18, severity=3))
        for start in (0, 3, 9):  # three rows are missing before the last table
            rows = [{"time": 1.7e9 + k, "x": float(k), "count": k} for k in range(start, start + 3)]
            pvs["BEAM"].post(rows)
        found = []
        for chunk in itertools.islice(reading, 2000):
            found += [chunk] if chunk is not None else []
            phase = samples(found, "K01", "phase")
            enough = len(samples(found, "witness", "x")) == 9 and len(phase) and np.isnan(phase[-1])
            if enough and len(samples(found, "K01", "amplitude")) >= 100:
                break
        assert samples(found, "K01", "amplitude")[-100:].tolist() == list(range(100))
        assert np.isnan(phase[-1]), "an invalid value is missing"
        assert samples(found, "witness", "x").tolist() == [0, 1, 2, 3, 4, 5, 9, 10, 11]
        assert source.counters()["lost"] == 3
    finally:
        source.close()


def test_a_server_that_goes_away_is_disconnected_and_comes_back(served):
    pvs, environment = served
    source = EpicsSource(
        EpicsSourceSettings({"*": "RF:{stream}:{column}"}, environment=environment),
        Wanted({"K01": ("amplitude",), "K02": ("amplitude",)}),
    )
    try:
        collect(source, bool)
        assert source.connected() == {"K01": True, "K02": False}
        pvs["RF:K01:amplitude"].close(destroy=True)
        end = time.monotonic() + 30
        while source.connected()["K01"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        pvs["RF:K01:amplitude"].open(scalar(7.0, 4 * 10**18))
        while not source.connected()["K01"]:
            assert time.monotonic() < end + 30
            time.sleep(0.02)
        assert source.counters()["disconnects"] >= 1
    finally:
        source.close()


def test_alarms_are_served_as_a_table_and_scalars():
    output = EpicsOutput(EpicsOutputSettings(prefix="TEST:", environment=LOOPBACK))
    try:
        with Context("pva", nt=False, conf=output.environment, useenv=False) as client:
            assert client.get("TEST:ANY").value == 0
            raised = {
                "key": "a1", "station": "K07", "state": "raised", "kind": "event", "score": 0.9,
                "events": ["e1", "e2"], "raised": 10**18,
            }  # fmt: skip
            output.write(
                [
                    Record(1, "event", "e1", "K07", 10**18, {"score": 0.9}),
                    Record(2, "alarm", "a1:1", "K07", 10**18, raised),
                    Record(3, "heartbeat", "h", "", 10**18, {}),
                ]
            )
            assert client.get("TEST:ANY").value == 1
            assert client.get("TEST:K07:SCORE").value == 0.9
            assert client.get("TEST:K07:ALARM").alarm.severity == 2
            assert client.get("TEST:HEARTBEAT").value > 1.6e9
            table = client.get("TEST:ALARMS").value
            assert (list(table.station), list(table.state), list(table.score)) == (["K07"], ["raised"], [0.9])
            output.write([Record(4, "alarm", "a1:1", "K07", 10**18, raised | {"state": "acknowledged"})])
            assert client.get("TEST:K07:ALARM").value == 1
            output.write([Record(5, "alarm", "a1:1", "K07", 10**18, raised | {"state": "cleared"})])
            assert client.get("TEST:ANY").value == 0
            assert len(client.get("TEST:ALARMS").value.station) == 0
    finally:
        output.close()
