"""The explorer's service and its marks: what it answers, whom it refuses, what it keeps."""

import io
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace

import naive
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from makers import HOSTILE, scored_pairs
from scipy.stats import binomtest
from sklearn.metrics import adjusted_rand_score

pytest.importorskip("torch")
pytest.importorskip("fastapi", reason="the explorer needs fastapi: pip install 'coad[app]'")
pytest.importorskip("httpx", reason="fastapi's test client needs httpx: pip install httpx")

from fastapi.testclient import TestClient

from coad import select_thresholds
from coad.app.explorer import Explorer
from coad.app.marks import KindNote, Mark, Marks, marks_beside
from coad.app.serve import bound_socket, get_ready, serve
from coad.app.server import make_app
from coad.app.session import Session
from coad.app.view import View
from coad.core.labels import wilson
from coad.data.layout import Layout
from coad.exceptions import CoadError, FileError, InputError
from coad.learned.estimator import CoAD
from coad.workflows.recipe import Recipe
from coad.workflows.scored import RowStore, read_scored
from coad.workflows.scoring import Source

TOKEN, PORT = "secret-token", 8123


@pytest.fixture(scope="module")
def model(two_column_model):
    return two_column_model


def scored(n=600, start="2026-03-09T10:00:00", **more):
    """Windows with time and regimes, as if they had been scored."""
    known = {
        "s_names": ("a", HOSTILE),
        "q_names": ("c", "d"),
        "first": np.arange(n) * 4,
        "last": np.arange(n) * 4 + 7,
        "windows": True,
        "n_rows": 4 * n + 4,
        "time": np.datetime64(start, "ns") + np.arange(n) * np.timedelta64(1, "s"),
        "contexts": ("steel", f"{HOSTILE}brass"),
        "code": np.arange(n) // 40 % 2,
    }
    return scored_pairs(n, rate=0.04, run=2, **(known | more))


@pytest.fixture
def explorer(model, tmp_path):
    marks = Marks(tmp_path / "marks.sqlite")
    return Explorer(model, Recipe(Layout(s=("a", HOSTILE), q=("c", "d"))), scored(), marks, names=HOSTILE)


@pytest.fixture
def client(explorer):
    return TestClient(make_app(Session(explorer), TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")


def get(client, path, code=200, **query):
    answer = client.get(f"/{TOKEN}/{path}", params=query)
    assert answer.status_code == code, answer.text
    return answer


# Who is let in.


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/start",
        "/wrong/",
        "/wrong/api/start",
        f"/{TOKEN}",
        f"/{TOKEN}x/",
        f"/{TOKEN[:-1]}/",
        "//",
        "/%2e%2e/",
    ],
)
def test_without_the_token_nothing_is_told(client, path):
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code == 403
    assert "token" in answer.text
    assert "plant" not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1:{PORT}.evil.example",
        "",
    ],
)
def test_other_hosts_are_refused_against_dns_rebinding(client, host):
    assert client.get(f"/{TOKEN}/api/start", headers={"host": host}).status_code == 403


def test_both_own_names_are_served(client):
    for name in ("127.0.0.1", "localhost"):
        assert client.get(f"/{TOKEN}/api/start", headers={"host": f"{name}:{PORT}"}).status_code == 200


def test_requests_of_other_pages_are_refused(client):
    body = {"pair": 1, "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5}
    evil = client.post(f"/{TOKEN}/api/mark", json=body, headers={"origin": "http://evil.example"})
    assert evil.status_code == 403
    text = client.post(f"/{TOKEN}/api/mark", content="pair=1", headers={"content-type": "text/plain"})
    assert text.status_code == 415
    huge = client.post(f"/{TOKEN}/api/mark", json={**body, "verdict": "x" * 30_000})
    assert huge.status_code == 413
    own = client.post(f"/{TOKEN}/api/mark", json=body, headers={"origin": f"http://127.0.0.1:{PORT}"})
    assert own.status_code == 200


def test_refusals_and_errors_have_the_headers_of_the_page(client, explorer, monkeypatch):
    expected = get(client, "").headers
    monkeypatch.setattr(type(explorer), "overview", lambda self: 1 / 0)
    for client_, path in (
        (client, "/wrong/"),
        (client, f"/{TOKEN}/nothing"),
        (
            TestClient(client.app, base_url=client.base_url, raise_server_exceptions=False),
            f"/{TOKEN}/api/start",
        ),
    ):
        answer = client_.get(path)
        assert answer.status_code >= 400
        for name in ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control"):
            assert answer.headers[name] == expected[name]


def test_a_body_in_chunks_is_refused_whatever_length_it_declares(client):
    headers = {"content-type": "application/json", "content-length": "10", "transfer-encoding": "chunked"}
    answer = client.post(f"/{TOKEN}/api/mark", content=iter([b"x" * 30_000]), headers=headers)
    assert answer.status_code == 413


def test_the_address_for_the_browser_works_once(explorer):
    client = TestClient(make_app(Session(explorer), TOKEN, PORT, "once"), base_url=f"http://127.0.0.1:{PORT}")
    assert client.get("/once", headers={"host": "evil.example"}).status_code == 403
    first = client.get("/once", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, f"/{TOKEN}/")
    assert client.get("/once", follow_redirects=False).status_code == 403


def test_the_browsers_command_line_does_not_show_the_token(explorer, monkeypatch):
    import uvicorn

    opened, said, ready = [], [], threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda address: (opened.append(address), ready.set()))
    monkeypatch.setattr(Session, "begin", lambda self: None)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: ready.wait(10))
    serve(explorer, bound_socket(), open_browser=True, say=said.append)
    token = said[0].rstrip("/").rpartition("/")[2]
    assert len(opened) == 1
    assert len(token) > 20
    assert token not in opened[0]


@pytest.mark.parametrize(
    "name",
    [
        "../state.py",
        "%2e%2e/state.py",
        "..%2f..%2fetc%2fpasswd",
        "/etc/passwd",
        "server.py",
        "%00",
        "index.html/../x",
        "marks.sqlite",
    ],
)
def test_no_file_outside_its_own_is_served(client, name):
    answer = client.get(f"/{TOKEN}/static/{name}")
    assert answer.status_code in (403, 404)
    assert "import" not in answer.text
    assert "root:" not in answer.text


def test_the_page_loads_only_what_it_serves_itself(client):
    page = get(client, "")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe-eval" not in page.headers["content-security-policy"]
    for name in ("index.html", "explorer.js", "pictures.js", "explorer.css", "common.css", "plotly.min.js"):
        file = get(client, f"static/{name}")
        if name != "plotly.min.js":
            assert "http://" not in file.text
            assert "https://" not in file.text
    assert "<script>" not in page.text


# What it answers.


def test_numbers_are_what_the_library_computes(client, explorer):
    data = explorer.scored
    for t_s, t_q, beta in ((0.2, 0.7, 1.0), (0.9, 0.01, 0.1), (0.5, 0.5, math.inf)):
        answer = get(client, "api/look", threshold_s=t_s, threshold_q=t_q, beta=beta).json()
        numbers = answer["numbers"]
        flag_s, flag_q = data.p_s >= t_s, data.p_q >= t_q
        expected = naive.fbeta(flag_s, flag_q, beta=beta, alpha=numbers["alpha"], context=data.code)
        assert numbers["fbeta_hat"] == pytest.approx(expected)
        assert numbers["n_joint"] == int((flag_s & flag_q).sum())
        runs = np.diff((flag_s & flag_q).astype(int), prepend=0) == 1
        assert answer["events"] == int(runs.sum())
        assert sum(answer["timeline"]["counts"]) == answer["events"]


def test_the_best_thresholds_for_a_beta_are_those_of_select_thresholds(client, explorer):
    data = explorer.scored
    for beta in (0.3, 1.0, 5.0):
        alpha = explorer.study.alpha
        found = select_thresholds(
            data.p_s, data.p_q, beta=beta, alpha=alpha, context=data.code, background="independent"
        )
        numbers = get(client, "api/look", beta=beta, tune=1).json()["numbers"]
        assert (numbers["threshold_s"], numbers["threshold_q"]) == (found.threshold_s, found.threshold_q)
        assert numbers["n_joint"] == found.n_joint


def test_filters_leave_only_what_was_asked_for(client, explorer):
    data = explorer.scored
    at = {"threshold_s": 0.3, "threshold_q": 0.3}
    everything = get(client, "api/look", **at).json()
    parts = [get(client, "api/look", **at, regime=i).json() for i in (0, 1)]
    assert sum(part["shown"] for part in parts) == everything["shown"] == everything["events"]
    assert {data.code[card["pair"]] for card in parts[1]["cards"]} == {1}
    begin = data.time.astype("datetime64[us]").astype(np.int64)[0] / 1e6
    early = get(client, "api/look", **at, start=begin, end=begin + 100).json()
    assert 0 < early["shown"] < everything["shown"]
    assert all(card["pair"] <= 100 for card in early["cards"])
    latest = get(client, "api/look", **at, sort="latest").json()["cards"]
    assert [card["pair"] for card in latest] == sorted((card["pair"] for card in latest), reverse=True)


def test_every_event_is_on_exactly_one_page(client):
    at = {"threshold_s": 0.2, "threshold_q": 0.2, "sort": "random"}
    first = get(client, "api/look", **at).json()
    assert first["pages"] > 1
    pairs = [
        card["pair"]
        for page in range(first["pages"])
        for card in get(client, "api/look", **at, page=page).json()["cards"]
    ]
    assert len(pairs) == len(set(pairs)) == first["events"]
    assert get(client, "api/look", **at, page=10**6).json()["page"] == first["pages"] - 1


def test_what_one_input_alone_finds_odd_is_shown(client, explorer):
    cards = get(client, "api/look", threshold_s=0.5, threshold_q=0.5, show="s").json()["cards"]
    assert cards
    for card in cards:
        assert explorer.scored.p_s[card["pair"]] >= 0.5 > explorer.scored.p_q[card["pair"]]


def test_hostile_names_are_text_in_every_card(client):
    answer = get(client, "api/look", threshold_s=0.2, threshold_q=0.2).json()
    assert any("&lt;script&gt;" in card["html"] for card in answer["cards"])
    assert not any("<script" in card["html"] for card in answer["cards"])


def test_the_tests_come_when_they_are_ready(client, explorer):
    assert get(client, "api/more").json() == {"ready": False}
    explorer.prepare()
    more = get(client, "api/more").json()
    assert len(more["scan"]) > 10


@pytest.mark.parametrize(
    "at", [{"saved": True}, {"threshold_s": 0.3, "threshold_q": 0.3}], ids=["rule", "moved"]
)
def test_the_banner_and_the_tiles_agree(client, explorer, at):
    told, tiles = (get(client, f"api/{name}", **at).json() for name in ("verdict", "look"))
    numbers = tiles["numbers"]
    assert (told["flagged"], told["events"]) == (numbers["n_joint"], tiles["events"])
    assert f"{tiles['events']} event" in told["verdict"]
    for name, shown in (("precision_hat", "P̂"), ("recall_hat", "R̂"), ("fbeta_hat", "F̂")):
        low, high = told["intervals"][name]
        assert low <= numbers[name] <= high, shown
    assert told["verdict"].startswith("Not saved") == tiles["unsaved"] == ("saved" not in at)
    assert told["checks"]


def test_a_failure_of_the_tests_is_said(client, explorer, monkeypatch):
    monkeypatch.setattr(type(explorer.study), "best", lambda self, beta: 1 / 0)
    explorer.prepare()
    assert "ZeroDivisionError" in get(client, "api/more").json()["failed"]


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("api/look", {"threshold_s": "nan"}, 400),
        ("api/look", {"threshold_s": "tall"}, 422),
        ("api/look", {"beta": "-1"}, 400),
        ("api/look", {"beta": "nan"}, 400),
        ("api/look", {"sort": HOSTILE}, 400),
        ("api/look", {"mark": "maybe"}, 400),
        ("api/look", {"show": "all"}, 400),
        ("api/look", {"what": "1"}, 422),
        ("api/look", {"page": "1e3"}, 422),
        ("api/look", {"regime": "99999"}, 200),
        ("api/look", {"threshold_s": "inf", "threshold_q": "-inf"}, 200),
        ("api/look", {"start": "5", "end": "-5"}, 200),
        ("api/look", {"page": "-7"}, 200),
        ("api/surface", {"beta": "inf"}, 200),
        ("api/surface", {"beta": "-3"}, 400),
        ("api/surface", {}, 422),
        ("api/event/0", {"threshold_s": "0.5", "threshold_q": "0.5"}, 200),
        ("api/event/600", {"threshold_s": "0.5", "threshold_q": "0.5"}, 400),
        ("api/event/-1", {"threshold_s": "0.5", "threshold_q": "0.5"}, 400),
        ("api/event/x", {"threshold_s": "0.5", "threshold_q": "0.5"}, 422),
        ("api/event/0", {"threshold_s": "nan", "threshold_q": "0.5"}, 400),
        ("export/events.exe", {}, 404),
        ("export/passwords.csv", {}, 404),
        ("nothing", {}, 404),
    ],
)
def test_nonsense_gets_a_plain_answer(client, path, query, code):
    answer = get(client, path, code, **query)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"pair": 1, "verdict": "maybe", "threshold_s": 0.5, "threshold_q": 0.5},
        {"pair": 10**9, "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5},
        {"pair": "one", "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5},
        {"pair": 1, "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5, "more": 1},
    ],
    ids=["empty", "unknown verdict", "no such pair", "not a number", "too much"],
)
def test_a_bad_mark_is_refused_and_not_kept(client, explorer, body):
    answer = client.post(f"/{TOKEN}/api/mark", json=body)
    assert answer.status_code in (400, 422)
    assert explorer.marks.all() == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("mark", '{"pair": NaN, "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5}'),
        ("mark", '{"pair": 1, "verdict": "real", "threshold_s": NaN, "threshold_q": 0.5}'),
        ("mark", '{"pair": 1, "verdict": "real", "threshold_s": 0.5, "threshold_q": 0.5, "more": Infinity}'),
        ("mark", '{"pair": 1, "verdict": "\\ud800", "threshold_s": 0.5, "threshold_q": 0.5}'),
        ("kind", '{"kind": "1", "name": "\\ud800"}'),
        ("kind", "[" * 15_000),
    ],
)
def test_a_body_that_json_cannot_repeat_is_refused_in_a_line(client, explorer, path, body):
    answer = client.post(f"/{TOKEN}/api/{path}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()
    assert explorer.marks.all() == []
    assert explorer.marks.kinds() == {}


# Marks.


def marked(client, pair, verdict, at=0.3):
    answer = client.post(
        f"/{TOKEN}/api/mark", json={"pair": pair, "verdict": verdict, "threshold_s": at, "threshold_q": at}
    )
    assert answer.status_code == 200, answer.text


def test_marks_give_a_confirmed_precision_with_its_interval(client):
    at = {"threshold_s": 0.3, "threshold_q": 0.3}
    cards = get(client, "api/look", **at).json()["cards"]
    for card, verdict in zip(cards, ["real"] * 4 + ["known", "not real"], strict=False):
        marked(client, card["pair"], verdict)
    answer = get(client, "api/look", **at).json()
    confirmed = answer["confirmed"]
    assert (confirmed["n"], confirmed["precision"]) == (6, 5 / 6)
    expected = binomtest(5, 6).proportion_ci(method="wilson")
    assert (confirmed["low"], confirmed["high"]) == pytest.approx((expected.low, expected.high))
    assert [card["mark"] for card in answer["cards"]][:6] == ["real"] * 4 + ["known", "not real"]
    assert get(client, "api/look", **at, mark="not real").json()["shown"] == 1
    assert get(client, "api/look", **at, mark="none").json()["shown"] == answer["events"] - 6
    marked(client, cards[0]["pair"], None)
    assert get(client, "api/look", **at).json()["confirmed"]["n"] == 5


def test_a_mark_stays_with_its_event_when_the_thresholds_move(client, explorer):
    events = explorer.scored.events(explorer.scored.flags(0.3, 0.3))
    long = int(np.argmax(events.n_pairs))
    assert events.n_pairs[long] > 1
    pair = int(events.peak[long])
    marked(client, pair, "real")
    for t in (0.05, 0.3, min(explorer.scored.p_s[pair], explorer.scored.p_q[pair])):
        one = get(client, f"api/event/{pair}", threshold_s=t, threshold_q=t).json()
        assert one["mark"] == "real"


def test_marks_of_other_data_are_not_taken_for_these(model, tmp_path):
    marks = Marks(tmp_path / "m.sqlite")
    recipe = Recipe(Layout(s=("a",), q=("c",)))
    old = Explorer(model, recipe, scored(), marks)
    old.mark(5, "real")
    assert old.event_marks.of_pair(5) == "real"
    assert Explorer(model, recipe, scored(start="2027-01-01T00:00:00"), marks).event_marks.of_pair(5) is None
    assert Explorer(model, recipe, scored(files=("other.parquet",)), marks).event_marks.of_pair(5) is None
    assert Explorer(model, recipe, scored(300), marks).event_marks.of_pair(5) == "real"


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (3, 7), (50, 60), (0, 40), (999, 1000)])
def test_the_interval_is_wilsons(hits, n):
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_nothing_marked_tells_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


def test_two_explorers_on_one_file_see_each_others_marks(tmp_path):
    path = tmp_path / "m.sqlite"
    one, two = Marks(path), Marks(path)
    one.put(Mark("f", 1, 2, "", "real"))
    two.put(Mark("f", 3, 4, "", "not real"))
    two.note_kind(KindNote("2", HOSTILE, True))
    assert {mark.first_row for mark in one.all()} == {mark.first_row for mark in two.all()} == {1, 3}
    assert one.kinds()["2"] == KindNote("2", HOSTILE, True)
    two.remove("f", 1, 2)
    assert [mark.first_row for mark in one.all()] == [3]


def test_marks_survive_a_process_that_is_killed(tmp_path):
    path = tmp_path / "m.sqlite"
    code = (
        "import os, signal, sys; from pathlib import Path; from coad.app.marks import Mark, Marks\n"
        "marks = Marks(Path(sys.argv[1]))\n"
        "for i in range(5): marks.put(Mark('f', i, i, '', 'real'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert [mark.first_row for mark in Marks(path).all()] == list(range(5))


def damage(path, how):
    if how == "noise":
        path.write_bytes(b"these are not marks" * 100)
    elif how == "folder":
        path.mkdir()
    elif how in ("another program", "newer"):
        with sqlite3.connect(path) as base:
            base.execute("CREATE TABLE songs (name TEXT)")
            if how == "newer":
                base.execute(f"PRAGMA application_id = {0x636F6164}")
                base.execute("PRAGMA user_version = 99")
        base.close()


@pytest.mark.parametrize("how", ["noise", "folder", "another program", "newer"])
def test_a_file_that_is_not_of_marks_is_refused_and_left_alone(tmp_path, how):
    path = tmp_path / "m.sqlite"
    damage(path, how)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(FileError, match=r"m\.sqlite"):
        Marks(path)
    if before is not None:
        assert path.read_bytes() == before


def test_half_a_character_in_a_name_is_refused_and_the_next_mark_is_kept(tmp_path):
    marks = Marks(tmp_path / "m.sqlite")
    with pytest.raises(InputError, match="half of a character"):
        marks.note_kind(KindNote("1", "\ud800", False))
    marks.put(Mark("f", 1, 2, "", "real"))
    assert [mark.first_row for mark in Marks(marks.path).all()] == [1]


def test_a_file_whose_name_is_no_text_can_be_marked(model, tmp_path):
    data = scored(files=(os.fsdecode(b"plant\xe9.parquet"),))
    marks = Marks(tmp_path / "m.sqlite")
    explorer = Explorer(model, Recipe(Layout(s=("a",), q=("c",))), data, marks, names=data.files[0])
    client = TestClient(make_app(Session(explorer), TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")
    marked(client, 5, "real")
    assert explorer.event_marks.of_pair(5) == "real"
    assert "plant" in get(client, "api/start").json()["names"]
    assert "plant" in get(client, "export/marks.csv").text


@pytest.mark.parametrize(
    ("how", "says"), [("delete", "moved or deleted"), ("noise", "damaged"), ("lock", "locked")]
)
def test_a_marks_file_that_fails_is_named_and_the_explorer_goes_on(client, explorer, how, says, monkeypatch):
    monkeypatch.setattr("coad.app.marks._WRITE_SECONDS", 0.1)
    path = explorer.marks.path
    marked(client, 5, "real")
    assert get(client, "api/look", threshold_s=0.3, threshold_q=0.3).json()["trouble"] == ""
    kept = path.read_bytes()
    locking = sqlite3.connect(path)
    if how == "lock":
        locking.execute("PRAGMA locking_mode = EXCLUSIVE")
        locking.execute("BEGIN EXCLUSIVE")
    elif how == "delete":
        path.unlink()
    else:
        damage(path, how)
    start = time.monotonic()
    answer = get(client, "api/look", threshold_s=0.3, threshold_q=0.3).json()
    assert time.monotonic() - start < 1.5
    assert answer["events"] > 0
    assert says in answer["trouble"]
    refused = client.post(
        f"/{TOKEN}/api/mark", json={"pair": 9, "verdict": "real", "threshold_s": 0.3, "threshold_q": 0.3}
    )
    assert says in refused.json()["error"]
    assert "real" in get(client, "export/marks.csv").text, "what was read before can still be saved"
    locking.close()
    if how != "lock":
        path.write_bytes(kept)
    marked(client, 9, "known")
    assert get(client, "api/look", threshold_s=0.3, threshold_q=0.3).json()["trouble"] == ""


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match="no such folder"):
        Marks(tmp_path / "nothing" / "m.sqlite")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_refused_at_once(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileError, match=r"cannot be (opened|used)"):
            Marks(tmp_path / "m.sqlite")
    finally:
        tmp_path.chmod(0o700)


def test_marks_lie_beside_the_model_so_that_a_new_fit_keeps_them(tmp_path):
    assert marks_beside(tmp_path / "model") == tmp_path / "model.marks.sqlite"


# Exports and the port.


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_exports_open_and_hold_the_events_and_marks(client, explorer, form):
    at = {"threshold_s": 0.3, "threshold_q": 0.3}
    first = get(client, "api/look", **at).json()["cards"][0]["pair"]
    marked(client, first, "known")
    read = {
        "csv": lambda data: pyarrow.csv.read_csv(io.BytesIO(data)),
        "parquet": lambda data: pq.read_table(io.BytesIO(data)),
    }[form]
    table = read(get(client, f"export/events.{form}", **at).content)
    data = explorer.scored
    events = data.events(data.flags(0.3, 0.3))
    assert table["peak_row"].to_pylist() == data.first[events.peak].tolist()
    np.testing.assert_allclose(table["p_s"].to_numpy(), data.p_s[events.peak])
    assert set(table["regime"].to_pylist()) <= set(data.contexts)
    rows = {row["peak_row"]: row["mark"] for row in table.to_pylist()}
    assert rows[int(data.first[first])] == "known"
    part = read(get(client, f"export/events.{form}", **at, regime=0).content)
    assert 0 < len(part) < len(table)
    marks = read(get(client, f"export/marks.{form}").content)
    assert marks["verdict"].to_pylist() == ["known"]
    assert marks["first_row"].to_pylist() == [int(data.first[first])]


def test_no_cell_of_an_export_is_a_formula(model, tmp_path):
    formulas = ("=HYPERLINK(1)", "@SUM(1)")
    data = scored(contexts=formulas, files=("-plant.parquet",))
    marks = Marks(tmp_path / "m.sqlite")
    explorer = Explorer(model, Recipe(Layout(s=("a",), q=("c",))), data, marks)
    client = TestClient(make_app(Session(explorer), TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")
    at = {"threshold_s": 0.3, "threshold_q": 0.3}
    table = pyarrow.csv.read_csv(io.BytesIO(get(client, "export/events.csv", **at).content))
    assert set(table["regime"].to_pylist()) == {f"'{name}" for name in formulas}
    assert set(table["file"].to_pylist()) == {"'-plant.parquet"}
    assert table["p_s"].type == "double"
    exact = pq.read_table(io.BytesIO(get(client, "export/events.parquet", **at).content))
    assert set(exact["regime"].to_pylist()) == set(formulas)


def test_an_export_of_nothing_is_an_empty_table(client):
    table = pq.read_table(
        io.BytesIO(get(client, "export/events.parquet", threshold_s=2, threshold_q=2).content)
    )
    assert len(table) == 0
    assert len(pyarrow.csv.read_csv(io.BytesIO(get(client, "export/marks.csv").content))) == 0


def test_a_port_in_use_is_named():
    with bound_socket() as taken:
        port = taken.getsockname()[1]
        assert taken.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InputError, match=f"port {port} is in use"):
            bound_socket(port)


def test_no_other_machine_can_reach_it():
    with bound_socket() as listening:
        port = listening.getsockname()[1]
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        others = {info[4][0] for info in found if not info[4][0].startswith("127.")}
        if not others:
            pytest.skip("this machine has no address but its own loop")
        for address in others:
            with pytest.raises(OSError), socket.create_connection((address, port), timeout=1):
                pass


def test_bare_pairs_without_time_regime_or_windows_can_be_explored(model, tmp_path):
    data = scored(200, time=None, contexts=(), code=None, windows=False)
    marks = Marks(tmp_path / "m.sqlite")
    explorer = Explorer(model, Recipe(Layout(s=("a",), q=("c",))), data, marks)
    assert explorer.overview()["clock"] is None
    answer = explorer.look(View(0.3, 0.3, start=5.0))
    assert answer["shown"] == answer["events"] > 0
    assert answer["regimes"] == []


# Why, and what kind.


def two_kinds(n=900):
    """Events of two kinds: one shows in the first column of each input, one in the second."""
    rng = np.random.default_rng(1)
    first, second = rng.random(n) < 0.05, rng.random(n) < 0.03
    s, q = rng.normal(size=(2, n, 2))
    for x in (s, q):
        x[first, 0] += 6
        x[second, 1] -= 6
    return s, q, first, second


@pytest.fixture(scope="module")
def sorted_session(tmp_path_factory):
    """A model that knows two kinds, on a session."""
    s, q, first, second = two_kinds()
    model = CoAD(n_starts=4, epochs=60, random_state=0).fit(s, q)
    p_s, p_q = model.confidences(s, q)
    stores = RowStore(), RowStore()
    for store, rows in zip(stores, (s, q), strict=True):
        store.add(rows)
    data = scored(
        len(s),
        p_s=p_s,
        p_q=p_q,
        s=stores[0],
        q=stores[1],
        contexts=(),
        code=None,
        score=p_s * p_q,
        flag=model.rule_.flags(p_s, p_q),
    )
    marks = Marks(tmp_path_factory.mktemp("kinds") / "m.sqlite")
    session = Session(Explorer(model, Recipe(Layout(s=("a", "b"), q=("c", "d"))), data, marks))
    session.base.prepare()
    return session, first, second


def test_what_is_asked_while_events_are_being_sorted_is_answered(sorted_session, monkeypatch):
    base = sorted_session[0].base
    other = Explorer(base.model, base.recipe, base.scored, base.marks, names=base.names)
    counting, answers = other.insight._numbers, []

    def asked_meanwhile(*arguments):
        monkeypatch.setattr(other.insight, "_numbers", counting)
        answers.append((other.kinds(), other.look(View(*other.study.start))["cards"][0]["kind"]))
        return counting(*arguments)

    monkeypatch.setattr(other.insight, "_numbers", asked_meanwhile)
    other.insight.prepare()
    assert answers == [([], None)]
    assert [one["events"] for one in other.kinds()] == [one["events"] for one in base.kinds()]


def test_kinds_are_found_named_filtered_and_dismissed(sorted_session):
    session, first, second = sorted_session
    kinds = session.base.kinds()
    assert len(kinds) == 2
    peak = session.base.study.events.peak
    only = first[peak] ^ second[peak]
    assert adjusted_rand_score(first[peak][only], np.array(session.base.insight.kinds_of(peak))[only]) > 0.8
    client = TestClient(make_app(session, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")
    start = dict(zip(("threshold_s", "threshold_q"), session.base.study.start, strict=True))
    largest = kinds[0]
    body = {"kind": largest["kind"], "name": HOSTILE, "dismissed": False}
    named = client.post(f"/{TOKEN}/api/kind", json=body).json()["kinds"]
    assert named[0]["name"] == HOSTILE
    part = get(client, "api/look", **start, kind=largest["kind"]).json()
    assert part["shown"] == largest["events"] > 0
    assert {card["kind"] for card in part["cards"]} == {HOSTILE}
    table = pq.read_table(io.BytesIO(get(client, "export/events.parquet", **start).content))
    assert table["kind"].to_pylist().count(HOSTILE) == largest["events"]
    client.post(f"/{TOKEN}/api/kind", json={**body, "dismissed": True})
    assert session.current is not session.base
    left = session.current.scored
    assert len(left) < len(session.base.scored)
    events = left.events(left.flags(*session.current.study.best(1.0)))
    assert largest["kind"] not in session.current.insight.kinds_of(events.peak)
    again = Session(session.base)
    again.update()
    assert len(again.current.scored) == len(left), "what was dismissed stays so"
    client.post(f"/{TOKEN}/api/kind", json=body)
    assert session.current is session.base


def test_dismissing_lowers_a_given_rate_as_the_model_would_and_tunes_thresholds_set_by_hand(
    sorted_session, tmp_path
):
    base = sorted_session[0].base
    given = base.model.at(1.0)
    given.rule_ = replace(given.rule_, alpha=0.08, alpha_given=True)
    given.tune(*two_kinds()[:2])
    marks = Marks(tmp_path / "m.sqlite")
    own = replace(base.scored, flag=given.rule_.flags(base.scored.p_s, base.scored.p_q))
    session = Session(Explorer(given, base.recipe, own, marks))
    session.base.insight.prepare()
    largest = session.base.kinds()[0]
    flagged = session.base.scored.flags(*session.base.study.start)
    session.note(KindNote(largest["kind"], "", True))
    left = len(session.current.scored)
    gone = len(flagged) - left
    assert 0 < gone < flagged.sum()
    expected = 0.08 * (flagged.sum() - gone) / flagged.sum() * len(flagged) / left
    assert session.current.study.alpha == pytest.approx(expected)
    assert session.current.study.start == session.current.study.best(1.0)


def test_an_event_names_the_channels_that_contributed_most(sorted_session):
    session, first, second = sorted_session
    only = [pair for pair in session.base.study.events.peak if first[pair] and not second[pair]]
    why = session.base.why(int(only[0]))
    for side, largest in (("s", "s: a"), ("q", "q: c")):
        assert next(line[0] for line in why["lines"] if line[0].startswith(side)) == largest
    assert len(why["s"]["attribution"]) == 2


def test_regimes_that_are_numbers_are_named_and_their_events_explained(tmp_path):
    s, q, first, _ = two_kinds()
    load = np.arange(len(s)) // 50 % 2
    columns = dict(zip("abcd", np.column_stack([s, q]).T, strict=True))
    pq.write_table(pyarrow.table(columns | {"load": load}), tmp_path / "plant.parquet")
    model = CoAD(n_starts=1, epochs=20, random_state=0).fit(s, q, context=load)
    recipe = Recipe(Layout(s=("a", "b"), q=("c", "d"), context=("load",)))
    data = read_scored(model, recipe, Source(tmp_path / "plant.parquet"))
    assert data.regime_names == ("load=0", "load=1")
    explorer = Explorer(model, recipe, data, Marks(tmp_path / "m.sqlite"))
    assert explorer.overview()["regimes"] == ["load=0", "load=1"]
    assert {row[0] for row in explorer.look(View(0.3, 0.3))["regimes"]} == {"load=0", "load=1"}
    assert explorer.why(int(np.flatnonzero(first)[0]))["lines"]


def test_too_few_events_are_not_sorted(explorer):
    explorer.study.__dict__["events"] = explorer.study.events[:3]
    explorer.prepare()
    assert explorer.kinds() == []
    assert explorer.look(View(0.3, 0.3, kind="x"))["shown"] == 0


def test_a_missing_package_is_named_before_anything_is_scored(monkeypatch):
    monkeypatch.setattr("coad.app.serve.find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(CoadError, match=r"needs uvicorn: pip install 'coad\[app\]'"):
        get_ready()
