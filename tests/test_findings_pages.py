"""Findings on pages: the report, the list in the explorer, and decisions that are kept, merged or refused."""

import re
import shutil

import numpy as np
import pytest
from makers import HOSTILE, write_parquet

pytest.importorskip("plotly")
pytest.importorskip("fastapi", reason="the explorer needs fastapi: pip install 'coad[app]'")
pytest.importorskip("httpx", reason="fastapi's test client needs httpx: pip install httpx")

from fastapi.testclient import TestClient

from coad import Findings, load
from coad.app.explorer import Explorer
from coad.app.findings_session import FindingsSession, open_session
from coad.app.marks import Marks
from coad.app.server import make_app
from coad.app.session import Session
from coad.app.view import View
from coad.data import Layout, read_pairs
from coad.exceptions import InputError
from coad.report.findings_page import write_findings_page
from coad.workflows.model_folder import load_model, save_model
from coad.workflows.recipe import Recipe
from coad.workflows.scored import read_scored
from coad.workflows.scoring import Source

pytestmark = pytest.mark.filterwarnings("ignore::coad.exceptions.CoadWarning")

TOKEN, PORT = "secret-token", 8123
OWN = View(0, 0, saved=True)


def table(n, shape, seed, kinds=((20, 7.0), (30, -7.0))):
    """Noise in both inputs, with kinds of rows that both see; runs of three rows."""
    rng = np.random.default_rng(seed)
    s, q = rng.normal(size=(2, n, *shape))
    places = rng.permutation(n // 3)
    for count, shift in kinds:
        own, places = places[: count // 3], places[count // 3 :]
        rows = (3 * own[:, None] + np.arange(3)).reshape(-1)
        s[rows] += shift
        q[rows] += shift
    return s, q


def files(folder, kind, *, kinds=((20, 7.0), (30, -7.0)), seed=0):
    """A file of rows, windows or images, and the layout that reads it."""
    if kind == "images":
        s, q = table(600, (1, 6, 6), seed, kinds)
        path = folder / "plant.npz"
        np.savez(path, s=s.astype(np.float32), q=q.astype(np.float32))
        return path, Layout(s=("s",), q=("q",))
    if kind == "windows":
        s, q = table(600, (8, 2), seed, kinds)
        s, q, more = s.reshape(-1, 2), q.reshape(-1, 2), {"window": 8}
    else:
        s, q = table(600, (2,), seed, kinds)
        more = {"time": "t", "context": ("load",)}
    time = np.datetime64("2026-03-09T10:00:00", "ns") + np.arange(len(s)) * np.timedelta64(1, "s")
    columns = {"t": time, "load": np.array(["low", f"{HOSTILE}high"])[np.arange(len(s)) // 20 % 2]}
    columns |= {"a": s[:, 0], HOSTILE: s[:, 1], "c": q[:, 0], "d": q[:, 1]}
    return write_parquet(folder / "plant.parquet", columns), Layout(s=("a", HOSTILE), q=("c", "d"), **more)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(model folder, data) of a kind of rows; fitted once. Change a copy."""
    made = {}

    def of(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            path, layout = files(folder, kind, kinds=() if kind == "noise" else ((20, 7.0), (30, -7.0)))
            model = Findings(lenses=["clusters"]).fit(read_pairs(path, layout))
            save_model(model, Recipe(layout), folder / "run")
            made[kind] = folder / "run", path
        return made[kind]

    return of


def page_of(found, tmp_path, kind, change=None):
    folder, path = found(kind)
    model, recipe = load_model(folder)
    if change is not None:
        change(model)
    scored = read_scored(model, recipe, Source(path))
    study = write_findings_page(tmp_path / "r.html", model, recipe, scored, source=Source(path), names=kind)
    return model, study, (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["rows", "windows", "images"])
def test_the_page_has_the_table_and_a_card_for_each_finding(found, tmp_path, kind):
    model, study, page = page_of(found, tmp_path, kind)
    assert sum(one.flagged for one in model) >= 2
    assert model.headline in page
    for name in model.table.header():
        assert f"<th>{name}</th>" in page
    cards = re.findall(
        r"<article class='event finding' data-finding='(\d+)'>(.*?)</article>", page, re.DOTALL
    )
    assert [int(number) for number, _ in cards] == [one.number for one in model.table[:20]]
    for number, text in cards:
        one = model[int(number)]
        assert one.verdict in text
        assert text.count("<svg class='shape'") >= 2, "typical rows of both inputs"
        assert "aria-label='when it occurs'" in text
        assert ("(of all pairs" in text) == (kind == "rows"), "regimes, where there is a context"
    assert "List of events" in page
    assert len(study.events) > 0
    assert HOSTILE not in page
    if kind == "images":
        assert "typical, not flagged" in page


def test_typical_rows_are_those_of_the_fit_on_the_data_of_the_fit(found, tmp_path):
    from coad.report.finding_cards import _typical

    model, study, _ = page_of(found, tmp_path, "rows")
    flagged = [one for one in model if one.flagged]
    assert [tuple(_typical(study.scored, one)) for one in flagged] == [one.exemplars[:2] for one in flagged]
    folder, _ = found("rows")
    other, _ = files(tmp_path, "rows", seed=5)
    new = read_scored(*load_model(folder), Source(other))
    for one in flagged:
        assert (new.mode[_typical(new, one)] == one.number).all(), "on other data, rows of the finding there"


def test_where_chance_explains_all_the_oddest_rows_are_listed(found, tmp_path):
    model, study, page = page_of(found, tmp_path, "noise")
    assert not study.flags.any()
    assert "Nothing is flagged" in page
    assert "The 20 pairs that are oddest in both inputs" in page
    oddest = page.split("id='oddest'")[1].split("</section>")[0]
    assert [int(row) for row in re.findall(r"data-pair='(\d+)'", oddest)] == model.oddest_[:8].tolist()
    assert "Chance alone explains as much" in oddest


def test_where_nothing_is_flagged_the_explorer_shows_the_oddest_rows(found, tmp_path):
    session = session_of(found("noise"), tmp_path)
    answer = session.current.look(OWN)
    assert answer["events"] == 0
    model = load(found("noise")[0])
    assert [one["pair"] for one in answer["cards"]] == model.oddest_[:12].tolist()
    session.current.mark(answer["cards"][1]["pair"], "known", OWN)
    assert [one["mark"] for one in session.current.look(OWN)["cards"]][:3] == [None, "known", None]


def test_no_finding_at_all_is_a_page_and_an_explorer_too(found, tmp_path):
    def forget(model):
        model.findings_, model.lenses_, model.p_value_ = (), {}, 1.0

    model, study, page = page_of(found, tmp_path, "rows", forget)
    assert "There are none." in page
    assert model.rule_.words() == "nothing is flagged"
    explorer = Explorer(model, study.recipe, study.scored, Marks(tmp_path / "m.sqlite"))
    session = open_session(explorer)
    assert session.findings()["cards"] == []
    assert session.current.look(OWN)["events"] == 0
    assert "nothing is flagged" in session.current.judged(OWN)["verdict"].lower()


def test_the_command_writes_the_page_of_any_model(found, tmp_path, run_coad):
    folder, path = found("windows")
    said = run_coad("report", folder, path, "--out", tmp_path / "r.html")
    assert said.code == 0, said.err
    assert load(folder).headline in said.out
    assert "data-finding='1'" in (tmp_path / "r.html").read_text(encoding="utf-8")


# The explorer.


@pytest.fixture
def home(found, tmp_path):
    """A copy of the findings of rows that a test may change, and the data."""
    folder, path = found("rows")
    shutil.copytree(folder, tmp_path / "run")
    return tmp_path / "run", path


def session_of(home, tmp_path, name="m.sqlite"):
    model, recipe = load_model(home[0])
    scored = read_scored(model, recipe, Source(home[1]), everything=True)
    marks = Marks(tmp_path / name)
    return open_session(Explorer(model, recipe, scored, marks, source=Source(home[1]), folder=home[0]))


@pytest.fixture
def client(home, tmp_path):
    session = session_of(home, tmp_path)
    return TestClient(make_app(session, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")


def post(client, path, code=200, **body):
    answer = client.post(f"/{TOKEN}/api/{path}", json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


def get(client, path):
    return client.get(f"/{TOKEN}/api/{path}").json()


def test_a_decision_reorders_the_list_and_every_number_follows(client, home):
    before, tiles = get(client, "findings"), get(client, "look?saved=true")
    first = before["cards"][0]
    assert first["flagged"]
    after = post(client, "decide", number=first["number"], decision="normal")
    assert after["cards"][-1]["number"] == first["number"], "decided ones last"
    assert after["flagged"] == before["flagged"] - 1
    assert after["unsaved"] == [first["number"]]
    now, banner = get(client, "look?saved=true"), get(client, "verdict?saved=true")
    assert now["events"] < tiles["events"]
    assert now["unsaved"]
    assert banner["verdict"].startswith("Not saved: rows of the flagged findings")
    model, recipe = load_model(home[0])
    python = model.decide(first["number"], "normal").evaluate(read_pairs(home[1], recipe.layout))
    assert (now["numbers"]["n_joint"], now["events"]) == (python.flagged, python.n_events)
    assert (banner["flagged"], banner["p_value"]) == (python.flagged, python.p_value)
    back = post(client, "decide", number=first["number"], decision=None)
    assert [one["number"] for one in back["cards"]] == [one["number"] for one in before["cards"]]
    assert back["unsaved"] == []
    assert get(client, "look?saved=true")["numbers"] == tiles["numbers"]


def test_ignored_rows_are_left_out_and_come_back(client, home):
    n = get(client, "start")["n"]
    first = get(client, "findings")["cards"][0]["number"]
    post(client, "decide", number=first, decision="ignore")
    numbers = get(client, "look?saved=true")["numbers"]
    model, recipe = load_model(home[0])
    scored = read_scored(model.decide(first, "ignore"), recipe, Source(home[1]))
    assert (numbers["n"], numbers["n_joint"]) == (len(scored), int(scored.flag.sum()))
    assert numbers["n"] < n
    post(client, "decide", number=first, decision=None)
    assert get(client, "look?saved=true")["numbers"]["n"] == n


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"number": 99, "decision": "event"}, 400, "there is no finding 99: they are numbered from 1 to"),
        ({"number": 0, "decision": "event"}, 400, "there is no finding 0"),
        ({"number": 1, "decision": "fault"}, 400, "a decision is 'event', 'normal', 'ignore', not 'fault'"),
        ({"number": "one", "decision": "event"}, 422, "number: "),
        ({"decision": "event"}, 422, "number: "),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_in_a_line(client, body, code, words):
    before = get(client, "findings")
    assert words in post(client, "decide", code, **body)["error"]
    assert get(client, "findings") == before


def test_a_model_without_findings_says_so(two_column_model, tmp_path):
    from makers import scored_pairs

    model = two_column_model
    explorer = Explorer(
        model, Recipe(Layout(s=("a", "b"), q=("c", "d"))), scored_pairs(), Marks(tmp_path / "m")
    )
    assert type(open_session(explorer)) is Session
    client = TestClient(make_app(open_session(explorer), TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")
    assert "has no findings" in post(client, "decide", 400, number=1, decision="event")["error"]
    assert "has no findings" in post(client, "decisions", 400)["error"]


def test_saved_decisions_are_those_of_the_model_and_every_command_uses_them(client, home, run_coad, tmp_path):
    post(client, "decide", number=1, decision="normal")
    assert load(home[0])[1].decision is None, "nothing is saved by deciding"
    said = post(client, "decisions")
    assert said["said"].startswith("saved in run: finding 1 normal")
    assert said["unsaved"] == []
    assert load(home[0])[1].decision == "normal"
    assert not get(client, "look?saved=true")["unsaved"]
    tiles = get(client, "look?saved=true")
    told = run_coad("score", *home, "--out", tmp_path / "s.parquet").out
    assert f"{tiles['numbers']['n_joint']:,} flagged" in told
    assert f"{tiles['events']:,} events" in told
    assert post(client, "decisions")["said"].startswith("there is nothing to save")


def test_decisions_of_two_people_are_merged_and_told(home, tmp_path):
    mine = session_of(home, tmp_path)
    theirs = load(home[0]).decide(1, "normal").decide(2, "ignore")
    theirs.save(home[0])
    mine.decide(2, "event")
    mine.decide(3, "normal")
    said = mine.save_decisions()
    assert "saved in run: finding 2 event, finding 3 normal" in said
    assert "merged from elsewhere: finding 1 normal" in said
    assert "replaced what was decided elsewhere: finding 2 ignore" in said
    assert [load(home[0])[k].decision for k in (1, 2, 3)] == ["normal", "event", "normal"]
    assert mine.findings()["unsaved"] == []
    again = session_of(home, tmp_path, "n.sqlite")
    assert mine.current.look(OWN)["numbers"] == again.current.look(OWN)["numbers"]
    assert "nothing to save" in mine.save_decisions()


def test_findings_that_were_fitted_again_are_not_overwritten(home, tmp_path):
    session = session_of(home, tmp_path)
    session.decide(1, "normal")
    path, layout = files(tmp_path, "rows", seed=3)
    other = Findings(lenses=["clusters"]).fit(read_pairs(path, layout))
    save_model(other, Recipe(layout), home[0])
    with pytest.raises(InputError, match="holds other findings since the explorer began"):
        session.save_decisions()
    assert all(one.decision is None for one in load(home[0]))
    assert session.findings()["unsaved"] == [1], "the decision is still there"


def test_findings_have_no_rule_of_thresholds_to_save(client):
    words = post(client, "rule", 400, threshold_s=0.5, threshold_q=0.5, beta=1)["error"]
    assert words.startswith("findings have no thresholds to save")


def test_decisions_that_cannot_be_saved_stay_unsaved(home, tmp_path, monkeypatch):
    session = session_of(home, tmp_path)
    session.decide(1, "normal")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Findings, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        session.save_decisions()
    assert session.findings()["unsaved"] == [1]


def test_marks_of_single_events_give_the_confirmed_precision_and_outlive_decisions(client):
    cards = get(client, "look?saved=true")["cards"]
    assert all(one["kind"].startswith("finding ") for one in cards)
    for one, verdict in zip(cards, ("real", "not real"), strict=False):
        post(client, "mark", pair=one["pair"], verdict=verdict, threshold_s=0, threshold_q=0, saved=True)
    assert get(client, "look?saved=true")["confirmed"]["precision"] == 0.5
    last = get(client, "findings")["cards"][-1]["number"]
    post(client, "decide", number=last, decision="normal")
    assert get(client, "look?saved=true")["confirmed"]["n"] == 2


def test_events_are_filtered_and_exported_by_finding(client):
    one = get(client, "findings")["cards"][0]["number"]
    chosen = get(client, f"look?saved=true&finding={one}")
    assert 0 < chosen["shown"] < chosen["events"]
    assert {card["kind"] for card in chosen["cards"]} == {f"finding {one}"}
    text = client.get(f"/{TOKEN}/export/events.csv?saved=true&finding={one}").text.splitlines()
    place = [name.strip('"') for name in text[0].split(",")].index("finding")
    assert {line.split(",")[place] for line in text[1:]} == {str(one)}


def test_a_session_of_findings_is_opened_for_findings(home, tmp_path):
    assert isinstance(session_of(home, tmp_path), FindingsSession)
