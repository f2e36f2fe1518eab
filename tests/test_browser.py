"""The report and the explorer in a real browser: no console error, numbers that follow, marks that stay."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi", reason="the explorer needs fastapi: pip install 'coad[app]'")
pytest.importorskip("playwright", reason="tests in a browser need playwright: pip install playwright")

from coad.data.layout import Layout
from coad.learned.estimator import CoAD
from coad.report.study import Study
from coad.workflows.model_folder import load_model, save_model
from coad.workflows.recipe import Recipe
from coad.workflows.scored import read_scored
from coad.workflows.scoring import Source

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "q2 <script>window.broken = 1</script>"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="tests in a browser need Chromium: apt install chromium (Debian), or google-chrome in the path",
    ),
]

BUILD = Path(__file__).parent.parent / "build"


def until(page, expression, seconds=90):
    """Wait for an expression to be true; the page forbids eval, which Playwright's own waiting uses."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression} did not come true in {seconds} s"
        page.wait_for_timeout(20)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model and data with time and regimes."""
    folder = tmp_path_factory.mktemp("seen")
    rng = np.random.default_rng(0)
    n = 1500
    event = rng.random(n) < 0.06
    columns = {name: rng.normal(size=n) + 4 * event for name in ("s1", "s2", "q1", HOSTILE)}
    columns["t"] = np.datetime64("2026-03-09T10:00:00", "ns") + np.arange(n) * np.timedelta64(1, "s")
    columns["load"] = np.array(["low", "</script>high"])[np.arange(n) // 100 % 2]
    pq.write_table(pa.table(columns), folder / "plant.parquet")
    layout = Layout(s=("s1", "s2"), q=("q1", HOSTILE), time="t", context=("load",))
    from coad.data.read import read_pairs

    pairs = read_pairs(folder / "plant.parquet", layout)
    model = CoAD(n_starts=1, epochs=15, random_state=0).fit(pairs)
    save_model(model, Recipe(layout), folder / "model")
    return folder


@pytest.fixture(scope="module")
def windowed_home(tmp_path_factory):
    """A model of windows of 16 samples, and its data."""
    folder = tmp_path_factory.mktemp("windows")
    rng = np.random.default_rng(0)
    n = 16 * 1000
    event = np.repeat(rng.random(n // 16) < 0.06, 16)
    columns = {name: rng.normal(size=n) + 4 * event for name in ("s1", "s2", "q1")}
    pq.write_table(pa.table(columns), folder / "plant.parquet")
    layout = Layout(s=("s1", "s2"), q=("q1",), window=16)
    from coad.data.read import read_pairs

    pairs = read_pairs(folder / "plant.parquet", layout)
    model = CoAD(alpha=0.06, n_starts=1, epochs=15, random_state=0).fit(pairs)
    save_model(model, Recipe(layout), folder / "model")
    return folder


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Open a page of a width and colour scheme; what its console says is an error of the test."""
    contexts, troubles = [], []

    def open_page(address, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith(("file:", "http://127.0.0.1", "data:", "blob:"))
                else troubles.append(asked.url)
            ),
        )
        page.goto(str(address))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


class Served:
    """``coad explore`` as a process of its own."""

    def __init__(self, home, marks):
        arguments = ["explore", home / "model", home / "plant.parquet", "--no-browser", "--marks", marks]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coad", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
        assert found, line + self.process.stdout.read()
        self.address = found.group(0)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def serve(home, tmp_path):
    running = []

    def start(folder=home):
        running.append(Served(folder, tmp_path / "marks.sqlite"))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.kill()


def picture(page, name):
    BUILD.mkdir(exist_ok=True)
    page.screenshot(path=BUILD / f"{name}.png", full_page=True)
    assert (BUILD / f"{name}.png").stat().st_size > 20_000


def test_the_report_opens_without_a_word_of_complaint(home, opened, tmp_path, run_coad):
    report = tmp_path / "report.html"
    ran = run_coad("report", home / "model", home / "plant.parquet", "--out", report)
    assert ran.code == 0, ran.err
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = opened(report.as_uri(), width, scheme)
        until(page, "document.documentElement.dataset.drawn !== undefined")
        drawn = page.evaluate("document.querySelectorAll('.figure .main-svg').length")
        assert drawn >= 6
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert page.evaluate("window.broken") is None
        assert " events " in page.inner_text(".verdict")
        assert page.locator("#events .event").count() == 12
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        brightness = [sum(map(int, re.findall(r"\d+", one)[:3])) for one in (ink, paper)]
        assert (brightness[0] > brightness[1]) == (scheme == "dark")
        picture(page, f"report-{width}-{scheme}")
    page.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def ready(page):
    until(page, "window.coad !== undefined && window.coad.allPictures !== null && window.coad.answers > 0")


def moved(page, element, value):
    """Move a slider as a hand does, and wait for the answer."""
    before = page.evaluate("window.coad.answers")
    page.locator(element).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        value,
    )
    until(page, f"window.coad.answers > {before}")


def test_sliders_change_the_numbers_to_what_the_library_computes(home, serve, opened):
    page = opened(serve().address)
    ready(page)
    model, recipe = load_model(home / "model")
    study = Study(read_scored(model, recipe, Source(home / "plant.parquet")), model, recipe)

    def check():
        view = page.evaluate("({ ...window.coad.view, beta: String(window.coad.view.beta) })")
        numbers = study.numbers_at(
            view["threshold_s"], view["threshold_q"], float(view["beta"].replace("Infinity", "inf"))
        )
        events = study.scored.events(study.scored.flags(view["threshold_s"], view["threshold_q"]))
        # The answer to an earlier move may still have been on its way.
        until(page, f"document.getElementById('fbeta').innerText === '{numbers.fbeta_hat:.3f}'")
        assert page.inner_text("#n-events") == f"{len(events):,}"
        assert f"{numbers.n_joint:,} flagged of 1,500" in page.inner_text("#n-flagged")
        assert abs(float(page.inner_text("#precision").rstrip(" %")) - 100 * numbers.precision_hat) < 0.6
        assert abs(float(page.inner_text("#recall").rstrip(" %")) - 100 * numbers.recall_hat) < 0.6
        shown = page.locator("#gallery .event").count()
        assert shown == min(12, len(events))
        return numbers

    first = check()
    assert (first.threshold_s, first.threshold_q) == (0.5, 0.5), "the model's rule"
    moved(page, "#beta", 70)
    beta = page.evaluate("window.coad.view.beta")
    second = check()
    assert (second.threshold_s, second.threshold_q) == study.best(beta), "thresholds follow β"
    moved(page, "#slider-s", 150)
    third = check()
    assert third.threshold_s != second.threshold_s
    assert not page.is_checked("#follow")
    moved(page, "#slider-q", 395)
    assert check().n_joint < third.n_joint
    page.fill("#exact-s", "0.25")
    page.keyboard.press("Enter")
    until(page, "window.coad.view.threshold_s === 0.25")
    page.wait_for_timeout(100)
    check()
    page.click("#reset")
    until(page, "window.coad.view.threshold_s === 0.5 && window.coad.view.saved")
    page.wait_for_timeout(100)
    assert check() == first
    for value in range(30, 60, 3):  # a hand that does not wait
        page.locator("#beta").evaluate(
            "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
            value,
        )
    until(
        page,
        "document.getElementById('fbeta-text').textContent.includes(document.getElementById('beta-text').textContent + ';')",
    )
    check()
    latencies = page.evaluate("window.coad.latencies")
    BUILD.mkdir(exist_ok=True)
    told = {
        "latencies_ms": latencies,
        **{name: page.evaluate(f"window.coad.{name}") for name in ("firstPicture", "allPictures")},
    }
    (BUILD / "explorer-latency.json").write_text(json.dumps(told))  # reported, not asserted by the clock


def test_the_scatter_does_not_wait_for_plotly_and_opens_its_points(serve, opened):
    page = opened("about:blank")
    page.route("**/plotly.min.js", lambda asked: None)  # it never comes
    page.goto(serve().address, wait_until="commit")
    until(page, "window.coad !== undefined && window.coad.firstPicture !== null")
    painted = "(() => { const c = document.querySelector('#scatter canvas'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((one) => one > 0); })()"
    assert page.evaluate(painted)
    label = page.locator("#scatter canvas").get_attribute("aria-label")
    drawn, flagged = map(int, re.findall(r"(\d+) ", label)[-2:])
    assert 0 < flagged < drawn <= 1500
    width, height = page.evaluate(
        "(() => { const c = document.querySelector('#scatter canvas'); return [c.clientWidth, c.clientHeight]; })()"
    )
    canvas = page.locator("#scatter canvas")
    for x in range(60, width, 5):  # somewhere along a diagonal there is a point to open
        place = {"x": x, "y": height - 44 - (x - 58) * (height - 52) / (width - 68)}
        canvas.hover(position=place)
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if "click to open" in (canvas.get_attribute("title") or ""):
            canvas.click(position=place)
            break
    else:
        pytest.fail("no point of the scatter can be opened")
    until(page, "document.getElementById('event').open")
    assert "p_s = " in page.inner_text("#event-s-title")
    assert page.evaluate("window.coad.allPictures") is None


def test_an_event_of_windows_shows_its_waves_at_once_and_then_why(serve, windowed_home, opened):
    page = opened(serve(windowed_home).address)
    ready(page)
    page.route("**/api/why/*", lambda asked: None)  # the explanation never comes
    page.locator("#gallery .event").first.click()
    page.wait_for_selector("dialog[open] #event-q .main-svg")
    lines = "document.querySelectorAll('#event-s .scatterlayer .js-line').length"
    assert page.evaluate(lines) == 6, "two waves with their normal range"
    assert page.locator("#trouble").is_hidden()
    page.keyboard.press("Escape")
    page.unroute("**/api/why/*")
    page.locator("#gallery .event").first.click()
    page.wait_for_selector("dialog[open] #event-s .scatterlayer .point")
    assert page.evaluate(lines) == 6
    picture(page, "explorer-windows")


def test_a_fault_of_the_page_is_not_called_a_lost_server(serve, browser):
    page = browser.new_page()  # its console may complain here
    server = serve()
    page.goto(server.address)
    ready(page)
    page.route("**/api/event/*", lambda asked: asked.fulfill(json={"p_s": None}))
    page.locator("#gallery .event").first.click()
    until(page, "document.getElementById('trouble').textContent.includes('This page failed (TypeError')")
    server.kill()
    page.select_option("#sort", "latest")
    until(page, "document.getElementById('trouble').textContent.includes('does not answer')")
    page.close()


def test_marks_survive_a_reload_and_a_kill_and_exports_open(serve, opened, tmp_path):
    server = serve()
    page = opened(server.address)
    ready(page)
    first = page.locator("#gallery .card").nth(0)
    title = first.locator("h3").inner_text()
    first.get_by_text("not real", exact=True).click()
    until(page, "document.getElementById('confirmed').textContent === '0 %'")
    page.locator("#gallery .event").nth(1).click()
    page.wait_for_selector("dialog[open] #event-s .main-svg")
    page.keyboard.press("r")
    until(page, "document.getElementById('event').dataset.mark === 'real'")
    page.keyboard.press("Escape")
    until(page, "document.getElementById('confirmed-text').textContent.startsWith('confirmed, of 2')")
    page.reload()
    ready(page)
    assert page.inner_text("#confirmed") == "50 %"
    with page.expect_download() as download:
        page.click("a[data-export='events.csv']")
    table = pyarrow.csv.read_csv(download.value.path())
    assert len(table) == int(page.inner_text("#n-events"))
    assert sorted(filter(None, table["mark"].to_pylist())) == ["not real", "real"]
    with page.expect_download() as download:
        page.click("a[data-export='marks.parquet']")
    shutil.copy(download.value.path(), tmp_path / "marks.parquet")
    assert pq.read_table(tmp_path / "marks.parquet").num_rows == 2
    page.close()
    server.kill()
    again = opened(serve().address, 390, "dark")
    ready(again)
    assert again.inner_text("#confirmed") == "50 %"
    pressed = again.locator("#gallery .card").filter(has_text=title).locator("button[aria-pressed=true]")
    assert pressed.all_inner_texts() == ["not real"]
    until(again, "document.getElementById('verdict').textContent.includes(' of 1,500 ')", 60)
    assert again.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out"
    picture(again, "explorer-390-dark")
    wide = opened(again.url)
    ready(wide)
    until(wide, "document.getElementById('verdict').textContent.includes(' of 1,500 ')", 60)
    wide.evaluate("document.getElementById('more').open = true")
    until(wide, "document.querySelectorAll('#null .main-svg').length > 0")
    wide.select_option("#regime", label="load=low")
    until(wide, "document.getElementById('gallery-title').textContent.includes(' of ')")
    facts = wide.locator("#gallery .facts").all_inner_texts()
    assert facts
    assert all("low" in text for text in facts)
    assert wide.evaluate("window.broken") is None
    picture(wide, "explorer-1280-light")
    assert os.path.getsize(BUILD / "explorer-1280-light.png") > 20_000


def test_what_is_chosen_survives_a_reload_and_can_be_saved_in_the_model(home, serve, opened, tmp_path):
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    page = opened(serve(copy).address)
    ready(page)
    until(page, "window.coad.verdicts > 0")
    assert page.is_disabled("#save"), "the model's rule is shown"
    assert not page.inner_text("#verdict").startswith("Not saved")
    page.fill("#exact-s", "0.9")
    page.press("#exact-s", "Enter")
    until(page, "document.getElementById('verdict').textContent.startsWith('Not saved')")
    tiles = page.inner_text("#n-events"), page.inner_text("#fbeta")
    page.reload()
    ready(page)
    until(page, "document.getElementById('verdict').textContent.startsWith('Not saved: p_s ≥ 0.9')")
    assert (page.inner_text("#n-events"), page.inner_text("#fbeta")) == tiles
    assert load_model(copy / "model")[0].rule_.thresholds == (0.5, 0.5), "nothing is saved by looking"
    with page.expect_event("load"):
        page.click("#save")
    until(page, "document.getElementById('said').textContent.includes('→ p_s ≥ 0.9')")
    until(page, "window.coad.verdicts > 0")
    assert page.is_disabled("#save")
    assert (page.inner_text("#n-events"), page.inner_text("#fbeta")) == tiles
    model, recipe = load_model(copy / "model")
    assert model.rule_.thresholds == (0.9, 0.5)
    found = read_scored(model, recipe, Source(copy / "plant.parquet"))
    assert f"{len(found.events(found.flag)):,} event" in page.inner_text("#verdict")


@pytest.fixture(scope="module")
def findings_home(tmp_path_factory):
    """Findings of two kinds of events in two loads, and the data."""
    from coad import Findings
    from coad.data.read import read_pairs

    folder = tmp_path_factory.mktemp("findings")
    rng = np.random.default_rng(0)
    n = 900
    kind = rng.choice(3, n, p=(0.93, 0.04, 0.03))
    shift = np.array([0.0, 7.0, -7.0])[kind]
    columns = {name: rng.normal(size=n) + shift for name in ("s1", "s2", "q1", HOSTILE)}
    columns["t"] = np.datetime64("2026-03-09T10:00:00", "ns") + np.arange(n) * np.timedelta64(1, "s")
    columns["load"] = np.array(["low", "</script>high"])[np.arange(n) // 100 % 2]
    pq.write_table(pa.table(columns), folder / "plant.parquet")
    layout = Layout(s=("s1", "s2"), q=("q1", HOSTILE), time="t", context=("load",))
    model = Findings(lenses=["clusters"]).fit(read_pairs(folder / "plant.parquet", layout))
    save_model(model, Recipe(layout), folder / "model")
    return folder


def test_keys_decide_about_findings_and_saved_decisions_survive_a_reload(
    findings_home, serve, opened, tmp_path
):
    copy = tmp_path / "home"
    shutil.copytree(findings_home, copy)
    page = opened(serve(copy).address)
    ready(page)
    until(page, "window.coad.findings > 0 && window.coad.verdicts > 0")
    model, recipe = load_model(copy / "model")
    order = [one.number for one in model.table]
    listed = (
        "[...document.querySelectorAll('#findings-list tbody tr')].map((row) => Number(row.dataset.number))"
    )
    chosen = "Number(document.querySelector('#findings-list [aria-selected=true]').dataset.number)"
    assert page.evaluate(listed) == order
    assert page.locator("#finding-card svg.shape").count() >= 3, "when, and typical rows of both inputs"
    flagged, plain = sum(one.flagged for one in model), next(one for one in model.table if not one.flagged)
    assert page.inner_text("#n-findings") == f"{flagged} of {len(model)}"
    model.decide(plain.number, "event")
    then = sum(one.flagged for one in model)  # others may be like it
    assert then > flagged
    assert page.is_disabled("#save-decisions")
    for _ in range(order.index(plain.number)):
        page.keyboard.press("j")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(chosen) == plain.number
    events = page.inner_text("#n-events")
    page.keyboard.press("e")
    until(page, f"document.getElementById('n-findings').textContent === '{then} of {len(model)}'")
    until(page, f"document.getElementById('n-events').textContent !== '{events}'")
    until(page, "document.getElementById('verdict').textContent.startsWith('Not saved: rows of the flagged')")
    assert page.evaluate(listed)[-1] == plain.number, "decided ones last"
    assert page.evaluate(chosen) == order[order.index(plain.number) + 1], "and the next one is selected"
    page.keyboard.press("n")
    until(page, "document.getElementById('n-findings-text').textContent.includes('2 decided, 2 not saved')")
    page.keyboard.press("u")
    until(page, "document.getElementById('n-findings-text').textContent.includes('1 decided, 1 not saved')")
    assert load_model(copy / "model")[0][plain.number].decision is None, "nothing is saved by deciding"
    page.reload()
    ready(page)
    until(page, "window.coad.findings > 0")
    assert page.inner_text("#n-findings") == f"{then} of {len(model)}", "a reload keeps what was chosen"
    picture(page, "findings-1280-light")
    page.click("#save-decisions")
    until(page, "document.getElementById('decided-said').textContent.startsWith('saved in model')")
    assert page.is_disabled("#save-decisions")
    kept = load_model(copy / "model")[0]
    assert kept[plain.number].decision == "event"
    found = read_scored(kept, recipe, Source(copy / "plant.parquet"))
    until(page, f"document.getElementById('n-events').textContent === '{len(found.events(found.flag)):,}'")
    page.locator("#gallery .card").nth(0).get_by_text("real", exact=True).click()
    until(page, "document.getElementById('confirmed').textContent === '100 %'")
    phone = opened(page.url, 390, "dark")
    ready(phone)
    until(phone, "window.coad.findings > 0")
    assert phone.inner_text("#n-findings") == f"{then} of {len(model)}"
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out"
    assert phone.evaluate("window.broken") is None
    phone.click("[data-decide=ignore]")
    until(phone, "document.getElementById('n-findings-text').textContent.includes('1 not saved')")
    picture(phone, "findings-390-dark")


def test_the_page_of_findings_opens_without_a_word_of_complaint(findings_home, opened, tmp_path, run_coad):
    report = tmp_path / "report.html"
    ran = run_coad("report", findings_home / "model", findings_home / "plant.parquet", "--out", report)
    assert ran.code == 0, ran.err
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = opened(report.as_uri(), width, scheme)
        until(page, "document.documentElement.dataset.drawn !== undefined")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert page.evaluate("window.broken") is None
        assert page.locator(".finding").count() > 2
        picture(page, f"findings-report-{width}-{scheme}")
