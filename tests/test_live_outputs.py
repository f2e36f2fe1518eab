"""Outputs: every record once and whole, and a clear word where the other side does not answer."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow.parquet as pq
import pytest

from coad.exceptions import InputError
from coad.live.delivery import Delivery
from coad.live.outputs.alertmanager import Alertmanager, AlertmanagerSettings
from coad.live.outputs.jsonl import JsonLines, JsonLinesSettings
from coad.live.outputs.parquet_days import ParquetDays, ParquetDaysSettings
from coad.live.outputs.webhook import Webhook, WebhookSettings
from coad.live.protocols import OutputError, Record
from coad.live.store import Store
from coad.live.values import Event

NOW = time.time_ns()


def record(number, kind="alarm", station="K01", time=NOW, **body):
    return Record(number, kind, f"key{number}", station, time, body)


class Receiver:
    """A web server of our own that answers as it is told: with a code, or late."""

    def __init__(self) -> None:
        receiver = self
        self.answers: list[int] = []  # codes to answer with; 200 when there are no more
        self.delay = 0.0
        self.heard: list[tuple[str, dict[str, str], object]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(receiver.delay)
                code = receiver.answers.pop(0) if receiver.answers else 200
                if code == 200:
                    receiver.heard.append((self.path, dict(self.headers), body))
                with suppress(BrokenPipeError):  # the output has given up waiting
                    self.send_response(code)
                    self.end_headers()
                    self.wfile.write(b"said so")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True).start()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_of_json_hold_each_record_once(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    output = JsonLines(JsonLinesSettings(str(path), kinds=["alarm"]))
    output.write([record(1, note="grüße"), record(2, kind="event")])
    output.write([record(3), record(3, kind="heartbeat")])
    assert [one["id"] for one in lines(path)] == [1, 3]
    assert lines(path)[0]["body"] == {"note": "grüße"}


def test_half_a_line_of_a_crash_is_cut_off_and_its_record_written_again(tmp_path):
    path = tmp_path / "log.jsonl"
    JsonLines(JsonLinesSettings(str(path))).write([record(1), record(2)])
    for cut in range(1, len(path.read_bytes().splitlines()[1])):
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        JsonLines(JsonLinesSettings(str(path))).write([record(1), record(2)])
        assert [one["id"] for one in lines(path)] == [1, 2]


def test_a_new_store_that_counts_from_one_again_loses_nothing(tmp_path):
    path = tmp_path / "log.jsonl"
    JsonLines(JsonLinesSettings(str(path))).write([record(1), record(2)])
    other = Record(1, "alarm", "another key", "K01", 0)
    JsonLines(JsonLinesSettings(str(path))).write([other])
    assert [one["key"] for one in lines(path)] == ["key1", "key2", "another key"]


def test_a_full_disk_is_an_output_error(tmp_path):
    output = JsonLines(JsonLinesSettings("/dev/full"))
    with pytest.raises(OutputError, match="/dev/full"):
        output.write([record(1)])


def test_a_webhook_that_fails_and_recovers_gets_the_records(receiver, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    settings = WebhookSettings(receiver.url + "/hook", tries=3, token_file=str(tmp_path / "token"))
    receiver.answers = [500, 503]
    Webhook(settings).write([record(1, state="raised"), record(2, kind="event")])
    ((path, headers, body),) = receiver.heard
    assert path == "/hook"
    assert headers["Authorization"] == "Bearer secret"
    assert [one["id"] for one in body] == [1], "events are not asked for"
    Webhook(settings).write([record(3, kind="event")])
    assert len(receiver.heard) == 1, "nothing to say, nothing sent"


def test_a_webhook_that_stays_down_says_what_it_heard(receiver):
    output = Webhook(WebhookSettings(receiver.url, tries=2))
    receiver.answers = [500, 500]
    with pytest.raises(OutputError, match=r"500 Internal Server Error: said so"):
        output.write([record(1)])
    receiver.answers = [403]
    with pytest.raises(OutputError, match="403"):
        output.write([record(1)])
    assert receiver.answers == [], "a refusal is not tried again"
    output.write([record(1)])
    assert len(receiver.heard) == 1


def test_a_slow_webhook_is_given_up_after_its_time_out(receiver):
    receiver.delay = 5.0
    output = Webhook(WebhookSettings(receiver.url, tries=1, timeout_s=0.2))
    start = time.monotonic()
    with pytest.raises(OutputError, match="timed out"):
        output.write([record(1)])
    assert time.monotonic() - start < 4.0


def test_an_address_that_nobody_listens_to(receiver):
    with pytest.raises(OutputError, match="refused"):
        Webhook(WebhookSettings("http://127.0.0.1:1", tries=1)).write([record(1)])
    with pytest.raises(InputError, match="must begin with http"):
        Webhook(WebhookSettings("127.0.0.1:80"))


def alarm(number, state, **body):
    body = {"key": f"alarm{number}", "state": state, "kind": "event", "raised": NOW, **body}
    return Record(number, "alarm", f"alarm{number}:1", "K07", NOW, body)


def test_alertmanager_hears_what_fires_and_what_is_over(receiver):
    output = Alertmanager(AlertmanagerSettings(receiver.url, labels={"area": "linac"}))
    output.write([alarm(1, "raised", score=0.9), record(5, kind="event")])
    ((path, _, (alert,)),) = receiver.heard
    assert path == "/api/v2/alerts"
    assert alert["labels"] == {
        "area": "linac",
        "alertname": "coad_event",
        "station": "K07",
        "key": "alarm1",
    }
    assert alert["annotations"] == {"state": "raised", "score": "0.9"}
    assert seconds(alert["endsAt"]) > time.time() + 60
    output.write([alarm(1, "cleared")])
    (over,) = receiver.heard[-1][2]
    assert over["labels"] == alert["labels"]
    assert seconds(over["endsAt"]) <= time.time() + 1


def test_alertmanager_is_told_again_what_still_fires(receiver, monkeypatch):
    output = Alertmanager(AlertmanagerSettings(receiver.url))
    output.write([alarm(1, "raised"), alarm(2, "raised"), alarm(3, "shelved")])
    output.write([record(9, kind="heartbeat")])
    assert len(receiver.heard) == 1, "not yet"
    output._said -= 61
    output.write([record(10, kind="heartbeat")])
    assert [one["labels"]["key"] for one in receiver.heard[-1][2]] == ["alarm1", "alarm2"]


def test_an_alertmanager_that_is_down_gets_the_alarms_later(receiver):
    output = Alertmanager(AlertmanagerSettings(receiver.url, tries=1))
    receiver.answers = [500]
    with pytest.raises(OutputError):
        output.write([alarm(1, "raised")])
    output.write([alarm(1, "raised")])
    assert len(receiver.heard) == 1


def test_alertmanager_is_told_what_fires_when_a_watch_starts_again(receiver, tmp_path):
    store = Store(tmp_path / "watch.db")
    event = Event("e1", "K07", NOW, NOW, NOW, 3, 0.9, 0.8, 0.72, "open")
    store.signal(event, "event")
    for _ in range(2):  # a watch, and the same one started again
        delivery = Delivery(Alertmanager(AlertmanagerSettings(receiver.url)), store)
        delivery.close(patience=20.0)
    assert [[one["labels"]["station"] for one in body] for _, _, body in receiver.heard][-1] == ["K07"]
    assert len(receiver.heard) >= 2
    store.close()


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


DAY = 86_400 * 10**9


def ids(folder):
    return {day.name: sorted(pq.read_table(day)["id"].to_pylist()) for day in sorted(folder.iterdir())}


def test_parquet_days_hold_each_record_once_and_forget_old_days(tmp_path):
    output = ParquetDays(ParquetDaysSettings(str(tmp_path / "days"), keep_days=2))
    today = datetime.now(UTC).replace(hour=12)
    old = today - timedelta(days=5)
    (tmp_path / "days" / f"day={old.date()}").mkdir(parents=True)
    (tmp_path / "days" / "day=notes").mkdir()
    noon = int(today.timestamp()) * 10**9
    output.write([record(1, time=noon - DAY, x=1), record(2, time=noon), record(3, time=noon)])
    (tmp_path / "days" / "day=notes").rmdir()
    expected = {f"day={(today - timedelta(days=1)).date()}": [1], f"day={today.date()}": [2, 3]}
    assert ids(tmp_path / "days") == expected
    # After a crash the last ones come again, with others.
    output = ParquetDays(ParquetDaysSettings(str(tmp_path / "days")))
    output.write([record(2, time=noon), record(3, time=noon), record(4, time=noon)])
    expected[f"day={today.date()}"] = [2, 3, 4]
    assert ids(tmp_path / "days") == expected


def test_many_small_parquet_files_of_a_day_become_one(tmp_path):
    output = ParquetDays(ParquetDaysSettings(str(tmp_path)))
    for number in range(1, 151):
        output.write([record(number)])
    (day,) = tmp_path.iterdir()
    assert sorted(pq.read_table(day)["id"].to_pylist()) == list(range(1, 151))
    assert len(list(day.iterdir())) <= 64


def test_an_old_day_is_not_removed_by_a_time_to_come(tmp_path):
    """A clock that jumps years ahead must not empty the folder."""
    output = ParquetDays(ParquetDaysSettings(str(tmp_path), keep_days=30))
    output.write([record(1)])
    output.write([record(2, time=NOW + 3000 * DAY)])
    assert [one for days in ids(tmp_path).values() for one in days] == [1, 2]
