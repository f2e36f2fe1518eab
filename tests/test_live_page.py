"""The control-room page: who may see and do what, what it sends, and how it works in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the page needs fastapi: pip install 'coad[live]'")

from makers import write_parquet
from starlette.testclient import TestClient

import coad
from coad.exceptions import InputError
from coad.live.config import WatchConfig
from coad.live.page.serve import Page
from coad.live.page.server import OPERATE, VIEW, make_page
from coad.live.watcher import Watcher

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TOKENS = {"operators-token-1": OPERATE, "viewers-token-12": VIEW}
MODEL = '[model]\ns = ["a"]\nq = ["x"]\ntime = "t"\n'
N = 400


def rows(start, n, odd=()):
    """Rows from a number on: time in seconds, and two inputs that are odd at some of them."""
    rng = np.random.default_rng(start)
    a, x = rng.normal(0, 0.2, (2, n))
    at = 1_700_000_000 + np.arange(start, start + n)
    for k in odd:
        a[k - start] = x[k - start] = 5.0
    return at, a, x


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model folder of two thresholds."""
    folder = tmp_path_factory.mktemp("model") / "run"
    scores = np.abs(np.random.default_rng(0).normal(size=(2, 500)))
    scores[:, :25] += 4.0
    found = coad.CoincidenceThreshold(n_permutations=0, random_state=0).fit(*scores)
    found.set_threshold(2.0, 2.0).save(folder)
    return folder


@pytest.fixture
def run(model, tmp_path):
    """The model in a folder of its own, with no database yet."""
    return shutil.copytree(model, tmp_path / "run")


@pytest.fixture
def watcher(run, tmp_path):
    """A watch that has gone through a recording with two events."""
    at, a, x = rows(0, N, odd=(100, 101, 300))
    write_parquet(tmp_path / "day.parquet", {"t": (at * 10**9).view("M8[ns]"), "a": a, "x": x})
    config = tmp_path / "watch.toml"
    source = f'[source]\nkind = "replay"\nfile = "{tmp_path / "day.parquet"}"\n'
    config.write_text(source + MODEL + '[alarms]\nlatch = "1h"\n', encoding="utf-8")
    watcher = Watcher(run, WatchConfig.read(config))
    watcher.run()
    yield watcher
    watcher.store.close()


def client_of(watcher, ended=lambda: False):
    return TestClient(make_page(watcher, TOKENS, 80, ended=ended))


def test_nothing_but_its_health_is_shown_to_strangers(watcher):
    client = client_of(watcher)
    for path in (
        "/",
        "/api/state",
        "/metrics",
        "/static/live.js",
        "/wrong-token-12345/api/state",
        "/api/stream",
    ):
        assert client.get(path).status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
    health = client.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (503, "not ok"), "it has stopped"


def test_every_answer_forbids_other_sources_and_other_pages(watcher):
    client = client_of(watcher)
    answer = client.get("/viewers-token-12/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    asked = client.post("/operators-token-1/api/act", json={}, headers={"Origin": "http://evil.example"})
    assert asked.status_code == 403


def test_the_state_has_alarms_events_signals_and_refusals(watcher):
    state = client_of(watcher).get("/viewers-token-12/api/state?station=").json()
    assert state["role"] == "view"
    assert [one["state"] for one in state["alarms"]] == ["latched"]
    assert len(state["events"]) == 2
    assert list(state["stations"]) == [""]
    assert state["now"]["counters"]["flagged"] == 3


def test_the_stream_sends_everything_once_and_then_what_changed(watcher, monkeypatch):
    monkeypatch.setattr("coad.live.page.server._EVERY_SECONDS", 0.01)
    turns = iter([False, False, True])
    answer = client_of(watcher, ended=lambda: next(turns)).get("/operators-token-1/api/stream")
    first, second = (json.loads(line[6:]) for line in answer.text.splitlines() if line)
    assert {"role", "now", "stations", "alarms", "events", "refusals", "drift"} <= set(first)
    assert not {"alarms", "role"} & set(second)
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_who_only_looks_cannot_act_and_who_acts_is_named(watcher):
    client = client_of(watcher)
    (alarm,) = watcher.store.alarms()
    body = {"key": alarm["key"], "action": "confirm", "person": "Ada", "note": "seen in the logbook"}
    refused = client.post("/viewers-token-12/api/act", json=body)
    assert refused.status_code == 403
    assert watcher.store.precision() == (0, 0)
    nobody = client.post("/operators-token-1/api/act", json={**body, "person": " "})
    assert (nobody.status_code, nobody.json()["error"]) == (
        400,
        "a name is needed with every action on an alarm",
    )
    done = client.post("/operators-token-1/api/act", json=body)
    assert done.status_code == 200
    assert (done.json()["verdict"], done.json()["person"]) == ("confirmed", "Ada")
    assert watcher.store.precision() == (1, 1)
    shelved = client.post(
        "/operators-token-1/api/act", json={**body, "action": "shelve", "minutes": 60}
    ).json()
    assert shelved["state"] == "shelved"
    assert shelved["until"] - watcher.store.watermark() == 3600 * 10**9
    for wrong in ({**body, "action": "delete"}, {**body, "minutes": -1}, {**body, "more": 1}, {"key": 5}):
        assert client.post("/operators-token-1/api/act", json=wrong).status_code == 422
    unknown = client.post("/operators-token-1/api/act", json={**body, "key": "none"})
    assert unknown.json() == {"error": "there is no alarm 'none'"}


def test_prometheus_reads_every_line(watcher):
    answer = client_of(watcher).get("/metrics", headers={"Authorization": "Bearer viewers-token-12"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.0-9eE]+')
    values = [one for one in answer.text.splitlines() if not one.startswith("#")]
    assert all(line.fullmatch(one) for one in values), values
    assert "coad_up 0" in values
    assert 'coad_engine_total{name="flagged"} 3' in values
    assert 'coad_alarms{state="latched"} 1' in values


def test_a_page_for_other_machines_needs_a_token_of_its_own(watcher, tmp_path, monkeypatch):
    monkeypatch.delenv("COAD_TOKEN", raising=False)
    with pytest.raises(InputError, match="where others can reach it"):
        Page(watcher, host="0.0.0.0")
    short = tmp_path / "short"
    short.write_text("secret")
    with pytest.raises(InputError, match="16 or more"):
        Page(watcher, token_file=str(short))
    monkeypatch.setenv("COAD_TOKEN", "a-token-from-the-environment")
    page = Page(watcher)
    with page:
        assert page.said()[0] == f"page: http://127.0.0.1:{page.port}/TOKEN/", "given tokens are not printed"
        assert urllib.request.urlopen(page.address(VIEW), timeout=20).status == 200
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{page.port}/healthz", timeout=20)
    monkeypatch.setenv("COAD_VIEW_TOKEN", "a-token-from-the-environment")
    with pytest.raises(InputError, match="the same"):
        Page(watcher)


class Watched:
    """``coad watch`` as a process of its own, on a file that grows."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder, self.run, self.rows = folder, run, 0
        (folder / "log.csv").write_text("t,a,x\n")
        config = f'[source]\nkind = "files"\npath = "{folder / "log.csv"}"\n{MODEL}[page]\nport = 0\n'
        (folder / "watch.toml").write_text(config + '[time]\nstale = "1h"\n[alarms]\nlatch = "1h"\n')
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "coad",
            "watch",
            str(self.run),
            "--config",
            str(self.folder / "watch.toml"),
        ]
        tokens = {"COAD_TOKEN": "operators-token-1", "COAD_VIEW_TOKEN": "viewers-token-12"}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("a"),
            text=True,
            env=os.environ | tokens,
        )
        line = self.process.stdout.readline()
        assert line.startswith("page: "), line + (self.folder / "log").read_text()
        self.address = line.split()[1].replace("TOKEN", "{}")

    def add(self, n, odd=()):
        columns = rows(self.rows, n, odd)
        self.rows += n
        with (self.folder / "log.csv").open("a") as file:
            file.writelines(f"{t},{a},{x}\n" for t, a, x in zip(*columns, strict=True))

    def end(self, how=signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


@pytest.fixture
def watched(tmp_path, run):
    watched = Watched(tmp_path, run)
    yield watched
    watched.process.kill()
    watched.process.wait(20)


@pytest.fixture
def opened():
    """Open a page; what its console says, and what it asks of others, is an error of the test."""
    sync_playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright").sync_playwright
    if CHROMIUM is None:
        pytest.skip("tests in a browser need Chromium: apt install chromium (Debian)")
    troubles: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def open_page(address, width=1280, scheme="light"):
            context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
            page = context.new_page()
            page.on(
                "console",
                lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None,
            )
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on(
                "request",
                lambda asked: (
                    None
                    if asked.url.startswith("http://127.0.0.1") or asked.url == "data:,"
                    else troubles.append(asked.url)
                ),
            )
            page.goto(address)
            return page

        yield open_page
        browser.close()
    assert troubles == []


def until(page, expression, seconds=40):
    """Wait for an expression to be true; the page forbids eval, which Playwright's own waiting uses."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression} did not come true in {seconds} s"
        page.wait_for_timeout(50)


def text_of(page, selector):
    return page.evaluate(f"document.querySelector({selector!r})?.textContent ?? ''")


def act(page, action, person="", note=""):
    page.click(f"[data-act={action}]")
    assert not page.is_visible("#act-minutes"), "only shelving has an end"
    if person:
        page.fill("#act-person", person)
    page.fill("#act-note", note)
    page.click("#act-yes")
    until(page, "!document.querySelector('#act').open")


@pytest.mark.slow
def test_an_alarm_appears_is_acknowledged_and_survives_reload_and_restart(watched, opened):
    page = opened(watched.address.format("operators-token-1"))
    watched.add(200)
    until(page, "document.querySelector('#status').textContent === 'running'")
    until(page, "document.querySelectorAll('.tile.quiet').length === 1")
    assert text_of(page, "#alarms") == "No alarm yet."
    watched.add(20, odd=(218, 219))
    until(page, "document.querySelector('#n-alarms').textContent === '1'")
    assert text_of(page, ".alarm-card .state") == "raised"
    assert page.title() == "(1) coad watch"
    act(page, "acknowledge", "Ada Lovelace", "beam loss seen <b>too</b>")
    until(page, "document.querySelector('.alarm-card .state').textContent === 'acknowledged'")
    act(page, "confirm")
    until(page, "document.querySelector('#n-confirmed').textContent === '1 of 1'")
    page.reload()
    until(page, "document.querySelectorAll('.alarm-card').length === 1")
    assert text_of(page, ".alarm-card .said") == "Confirmed · Ada Lovelace"
    page.close()

    watched.end(signal.SIGKILL)
    watched.start()
    page = opened(watched.address.format("operators-token-1"), 390, "dark")
    until(page, "document.querySelectorAll('.alarm-card.acknowledged').length === 1")
    assert text_of(page, ".alarm-card .said").startswith("Confirmed · Ada Lovelace")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "it fits a phone"
    watched.add(50)
    until(page, "document.querySelector('#alarms').textContent === 'No alarm that is not cleared.'")
    page.check("#show-cleared")
    assert text_of(page, ".alarm-card .state") == "cleared"
    assert "Ada Lovelace" in text_of(page, ".alarm-card .said")
    page.close()
    assert watched.end() == 0
    log = [json.loads(line) for line in (watched.folder / "log").read_text().splitlines()]
    assert {line["level"] for line in log} == {"info"}


@pytest.mark.slow
def test_who_only_looks_has_no_buttons_and_shelving_asks_for_how_long(watched, opened):
    watched.add(20, odd=(18, 19))
    page = opened(watched.address.format("viewers-token-12"))
    until(page, "document.querySelectorAll('.alarm-card').length === 1")
    assert page.evaluate("document.querySelectorAll('[data-act]').length") == 0
    assert "only looks" in text_of(page, "#who")
    page.close()
    page = opened(watched.address.format("operators-token-1"), scheme="dark")
    until(page, "document.querySelectorAll('[data-act=shelve]').length === 1")
    page.click("[data-act=shelve]")
    assert page.is_visible("#act-minutes")
    page.click("#act-yes")
    assert page.evaluate("document.querySelector('#act').open"), "a name is needed"
    page.fill("#act-person", "Grace")
    page.select_option("#act-minutes", "480")
    page.click("#act-yes")
    until(page, "document.querySelectorAll('.alarm-card.shelved').length === 1")
    assert "until" in text_of(page, ".alarm-card .soft:not(span)")
    page.close()
