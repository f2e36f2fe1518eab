"""How long a report takes beyond scoring, and how quickly the explorer answers in a real browser."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import record, table
from coad.data.layout import Layout
from coad.learned.estimator import CoAD
from coad.report.model_page import write_model_report
from coad.workflows.recipe import Recipe
from coad.workflows.scored import RowStore, Scored

SHAPE = (2, 32)
RECIPE = Recipe(Layout(s=("s1", "s2"), q=("q1", "q2"), time="t", window=32))


def run() -> None:
    model = _model()
    record("report", "Report beyond scoring", _reports(model))
    record("explorer", "Explorer in Chromium", _explorers(model))


def scored(n: int, *, regimes: int = 0, seed: int = 0) -> Scored:
    """Windows as a model leaves them: events of 5 % in both, noise in each; simulated."""
    rng = np.random.default_rng(seed)
    event = rng.random(n) < 0.05
    p_s, p_q = rng.beta(0.3, 5, size=(2, n))
    for p in (p_s, p_q):
        p[event] = rng.beta(5, 0.3, size=event.sum())
    s, q = RowStore(), RowStore()
    for start in range(0, n, 50_000):
        part = event[start : start + 50_000]
        for store in (s, q):
            store.add(rng.normal(size=(len(part), *SHAPE)) + 2 * part[:, None, None])
    code = np.arange(n) // 500 % regimes if regimes else None
    return Scored(
        p_s=p_s,
        p_q=p_q,
        score=p_s * p_q,
        flag=(p_s >= 0.5) & (p_q >= 0.5),
        s=s,
        q=q,
        s_names=("s1", "s2"),
        q_names=("q1", "q2"),
        first=np.arange(n) * SHAPE[1],
        last=np.arange(n) * SHAPE[1] + SHAPE[1] - 1,
        file=np.zeros(n, dtype=np.int32),
        files=("plant.parquet",),
        windows=True,
        n_rows=n * SHAPE[1],
        time=np.datetime64("2026-03-09", "ns") + np.arange(n) * np.timedelta64(1, "s"),
        contexts=tuple(range(regimes)),
        regime_names=tuple(f"regime {i}" for i in range(regimes)),
        code=code,
    )


def _model() -> CoAD:
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 600, *SHAPE))
    event = rng.random(600) < 0.08
    s[event] += 2
    q[event] += 2
    return CoAD(n_starts=1, epochs=5, random_state=0).fit(s, q)


CASES = ((100_000, 0), (100_000, 8), (1_000_000, 0))


def _reports(model: CoAD) -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_model_report(Path(folder) / "warm.html", model, RECIPE, scored(2000))  # compiles
        for n, regimes in CASES:
            data = scored(n, regimes=regimes)
            path = Path(folder) / "r.html"
            start, worked = time.perf_counter(), time.process_time()
            write_model_report(path, model, RECIPE, data)
            seconds, worked = time.perf_counter() - start, time.process_time() - worked
            size = f"{path.stat().st_size / 1e6:.1f} MB"
            rows.append((f"{n:,}", regimes or "–", f"{seconds:.1f} s", f"{worked:.1f} s", size))
            print(rows[-1], flush=True)
    return (
        table(("windows", "regimes", "time", "processor time", "size"), rows)
        + f"\n\nLoad of the machine meanwhile: {os.getloadavg()[1]:.1f}. From confidences to the written page: search, tests, scan, figures, galleries. Asked for: 100,000 windows in "
        "under 20 s and 10 MB."
    )


def _explorers(model: CoAD) -> str:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return "Not measured: Chromium is missing."
    from playwright.sync_api import sync_playwright

    from coad.app.serve import get_ready

    get_ready()
    rows = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for n, regimes in CASES:
            rows.append((f"{n:,}", regimes or "–", *_explore(model, scored(n, regimes=regimes), browser)))
            print(rows[-1], flush=True)
        browser.close()
    return (
        table(
            (
                "windows",
                "regimes",
                "first picture",
                "all figures",
                "β slider",
                "threshold slider",
                "β while tests run",
            ),
            rows,
        )
        + "\n\nFirst picture: from scored windows to numbers, sliders, scatter and the waveforms of the strongest "
        "events on the screen; all figures: to Plotly's too. Packages and compiled code are loaded before, as "
        "`coad explore` does while it scores. Sliders: from the move to "
        "numbers and gallery in the page, median (worst) of 25 moves. Asked for: 3 s and 200 ms at 100,000 windows."
    )


def _explore(model: CoAD, data: Scored, browser: Any) -> tuple[str, ...]:
    import uvicorn

    from coad.app.explorer import Explorer
    from coad.app.marks import Marks
    from coad.app.serve import bound_socket
    from coad.app.server import make_app
    from coad.app.session import Session

    with tempfile.TemporaryDirectory() as folder:
        marks = Marks(Path(folder) / "m.sqlite")
        start = time.perf_counter()
        session = Session(Explorer(model, RECIPE, data, marks, names="benchmark"))
        listening = bound_socket()
        port = listening.getsockname()[1]
        config = uvicorn.Config(make_app(session, "t", port), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        session.begin()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        opened = time.perf_counter() - start
        page.goto(f"http://127.0.0.1:{port}/t/")
        _until(page, "window.coad !== undefined && window.coad.allPictures !== null")
        # The page's own clock, which starts when it is asked for.
        first, whole = (
            opened + page.evaluate(f"window.coad.{name}") / 1000 for name in ("firstPicture", "allPictures")
        )
        busy = _moves(page, "#beta", range(20, 70, 5))
        _until(page, "document.getElementById('verdict').className !== 'verdict none'")
        beta = _moves(page, "#beta", range(15, 65, 2))
        threshold = _moves(page, "#slider-s", range(100, 350, 10))
        page.close()
        server.should_exit = True
        thread.join(20)
    return (f"{first:.1f} s", f"{whole:.1f} s", beta, threshold, busy)


def _moves(page: Any, slider: str, values: range) -> str:
    times = []
    for value in values:
        before = page.evaluate("window.coad.answers")
        page.locator(slider).evaluate(
            "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', { bubbles: true })); }",
            value,
        )
        _until(page, f"window.coad.answers > {before}")
        times.append(page.evaluate("window.coad.latencies.at(-1)"))
        page.wait_for_timeout(120)  # a hand; the pictures follow meanwhile
    return f"{np.median(times):.0f} ms ({max(times):.0f})"


def _until(page: Any, expression: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        if time.monotonic() > end:
            raise TimeoutError(expression)
        page.wait_for_timeout(5)
