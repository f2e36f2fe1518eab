"""Workers of ``coad stream`` in Quix Streams, against librdkafka's mock broker: kill -9, state folders that are lost.

Quix Streams has an environment of its own, which ``make test-stream`` builds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from test_streams import everything, plant

kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'coad[kafka]'")

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-stream" / ("Scripts" if os.name == "nt" else "bin") / "python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-stream: run make test-stream"),
]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"did not come true in {seconds} s"
        time.sleep(0.05)


class Plant:
    """A model, a recording and settings for a broker."""

    def __init__(self, folder, brokers, more="", **data):
        self.folder, self.brokers = folder, brokers
        self.config = plant(folder, **data)
        with self.config.open("a", encoding="utf-8") as file:
            file.write(
                f'[stream]\nbrokers = "{brokers}"\nmake_topics = "broker"\ncommit = "300ms"\n{more}'
                'consumer = { "session.timeout.ms" = "4000", "heartbeat.interval.ms" = "300" }\n'
            )
        self.asking = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "coad", "log_level": 0})

    def command(self, *words, python=sys.executable, folder=None):
        folder = folder or self.folder
        line = [python, "-m", "coad", *words, str(folder / "run"), "--config", str(self.config)]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)

    def run(self, *words):
        return self.command(*words).communicate(timeout=120)

    def worker(self, folder=None):
        return self.command("stream", "work", python=PYTHON, folder=folder)

    def offsets(self, topic):
        """The next offset of each partition of a topic, and what the group has committed."""
        if self.asking.list_topics(topic, timeout=10).topics[topic].error:
            return [0] * 4, [0] * 4  # it is being made
        places = [kafka.TopicPartition(topic, k) for k in range(4)]
        ends = [self.asking.get_watermark_offsets(one, timeout=10)[1] for one in places]
        return ends, [max(one.offset, 0) for one in self.asking.committed(places, timeout=10)]

    def found(self):
        return everything(self.folder / "run" / "stream.db")


def killed(worker):
    worker.send_signal(signal.SIGKILL)
    worker.communicate(timeout=20)


def stopped(worker):
    worker.terminate()
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    return err


def watched(plant):
    out, err = plant.run("watch")
    assert "kept in" in out, err
    return everything(plant.folder / "run" / "watch.db")


def test_workers_and_a_collector_that_are_killed_find_what_one_watch_finds(brokers, tmp_path):
    plant = Plant(tmp_path, brokers, n=4000, events=60)
    expected = watched(plant)
    out, err = plant.run("stream", "publish")
    assert "messages to 'coad-samples'" in out, err
    ends, _ = plant.offsets("coad-samples")
    shutil.copytree(tmp_path / "run", tmp_path / "other" / "run")  # another machine, with the same model
    working = [plant.worker(), plant.command("stream", "collect")]
    try:
        until(lambda: sum(plant.offsets("coad-samples")[1]) > 300)
        killed(working.pop(0))
        done = plant.offsets("coad-samples")[1]
        assert 0 < sum(done) < sum(ends), "the worker was not killed in the middle"
        shutil.rmtree(tmp_path / "run" / "stream-state")
        working = [plant.worker(), plant.worker(tmp_path / "other"), *working]
        killed(working.pop())
        before = sum(plant.offsets("coad-results")[0])
        until(lambda: sum(plant.offsets("coad-results")[0]) > before)
        working.append(plant.command("stream", "collect"))
        out, err = working[-1].communicate(timeout=120)
        assert working.pop().returncode == 0, err
        assert "kept in" in out
        assert [stopped(one) for one in working] == ["", ""]
    finally:
        for one in working:
            if one.poll() is None:
                killed(one)
    assert plant.found() == expected
    assert plant.offsets("coad-samples")[1] == ends


def test_a_worker_says_in_a_line_what_is_wrong(brokers, tmp_path):
    plant = Plant(tmp_path, brokers, n=100, events=2)
    plant.run("stream", "publish")
    producer = kafka.Producer({"bootstrap.servers": brokers})
    producer.produce("coad-samples", b"nonsense", b"K01")
    producer.produce("coad-samples", b"{}", None)
    producer.flush(10)
    ends, _ = plant.offsets("coad-samples")
    worker = plant.worker()
    until(lambda: plant.offsets("coad-samples")[1] == ends)
    said = stopped(worker).splitlines()
    assert len(said) == 2
    assert any("is left out: it is neither a safetensors file nor a JSON object" in line for line in said)
    assert any("is left out: it has no key" in line for line in said)
    for k in range(4):
        producer.produce("coad-samples", b"more", b"K01", k)
    producer.flush(10)
    text = plant.config.read_text(encoding="utf-8")
    plant.config.write_text(text.replace("50ms", "40ms"), encoding="utf-8")
    worker = plant.worker()
    _, err = worker.communicate(timeout=60)
    assert (worker.returncode, err.count("\n")) == (2, 1), err
    assert "name another group under [stream]" in err


@pytest.mark.parametrize(
    ("change", "to", "words"),
    [
        ('"127.0.0.1:9"', '"127.0.0.1:1"', "no broker answers at 127.0.0.1:1 within 10 s"),
        ("commit =", "commits =", "no key 'commits'"),
    ],
)
def test_a_worker_that_cannot_start_says_why(change, to, words, tmp_path):
    plant = Plant(tmp_path, "127.0.0.1:9", n=50, events=1)
    text = plant.config.read_text(encoding="utf-8")
    plant.config.write_text(text.replace(change, to), encoding="utf-8")
    worker = plant.worker()
    _, err = worker.communicate(timeout=60)
    assert (worker.returncode, err.count("\n")) == (2, 1), err
    assert words in err


def test_a_topic_that_is_missing_is_named(brokers, tmp_path):
    plant = Plant(tmp_path, brokers, n=50, events=1)
    text = plant.config.read_text(encoding="utf-8")
    plant.config.write_text(text.replace('"broker"', '"never"'), encoding="utf-8")
    _, err = plant.run("stream", "collect")
    assert err.count("\n") == 1
    assert "there is no topic 'coad-samples'" in err
