"""Settings and fixtures that several test files share. Plain makers of data are in makers.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

# Before torch and numpy are imported: two workers of two threads each wait for one another on two cores, which
# takes twice the processor time.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a test sends nothing

from makers import event_rows, rows_around_axes

settings.register_profile("coad", deadline=None, derandomize=True)
settings.load_profile("coad")


@pytest.fixture(autouse=True)
def same_numbers_in_any_order():
    """Tests that draw from torch's global generator get the same numbers whatever ran before them."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def two_threads():
    """Training is shared out among threads, as on any machine of several cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_coad(monkeypatch, capsys):
    """Run a command in this process, as ``coad`` would: (exit code, standard output, standard error)."""

    def run(*arguments) -> Ran:
        from coad.__main__ import main

        monkeypatch.setattr(sys, "argv", ["coad", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return Ran(code, *capsys.readouterr())

    return run


#: A broker in a process of its own, which outlives those that are killed; it ends with the test that feeds it.
MOCK_BROKER = """
import sys
from confluent_kafka import Producer
one = Producer({"test.mock.num.brokers": 1, "log_level": 0})
(broker,) = one.list_topics(timeout=10).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def brokers():
    """The address of librdkafka's mock broker."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'coad[kafka]'")
    with subprocess.Popen(
        [sys.executable, "-c", MOCK_BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as one:
        yield one.stdout.readline().strip()
        one.stdin.close()
        one.wait(20)


@pytest.fixture
def shared_data():
    """The folder of a real data set under COAD_DATA; the test is skipped where it is not at hand."""

    def folder(name: str) -> Path:
        root = os.environ.get("COAD_DATA")
        if not root or not (Path(root) / name).is_dir():
            pytest.skip(f"COAD_DATA does not name a folder with {name}/")
        return Path(root) / name

    return folder


@pytest.fixture(scope="session")
def two_column_model():
    """A CoAD of two columns in each input. Shared by all tests: change a copy, as ``at`` gives it."""
    from coad import CoAD

    s, q, _ = event_rows(500, (2,), rate=0.08, shift=(4, 4))
    return CoAD(n_starts=2, epochs=15, random_state=0).fit(s, q)


@pytest.fixture(scope="session")
def fitted_modes():
    """(catalogue, s, q, kind) of two regimes and a rare kind. Shared by all tests: change a copy."""
    from coad import CoincidenceModes

    s, q, kind = rows_around_axes()
    return CoincidenceModes(steps=80, random_state=0).fit(s, q), s, q, kind
