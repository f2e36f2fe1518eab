"""One decision: for one model and one file, every command and the API tell the same rows and numbers."""

import json
import math
import re
from dataclasses import asdict, replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from makers import write_parquet

pytest.importorskip("torch")
pytest.importorskip("plotly")

import coad
from coad import CoAD, CoincidenceModes, CoincidenceThreshold, Detector, Findings, load
from coad.app.explorer import Explorer
from coad.app.findings_session import open_session
from coad.app.marks import Marks
from coad.app.session import Session
from coad.app.view import View
from coad.core.assessment import RowScores, assess
from coad.core.rule import Rule
from coad.core.runs import RowOrder
from coad.data import Layout, read_pairs
from coad.report.findings_page import write_findings_page
from coad.report.model_page import write_model_report
from coad.workflows.evaluating import evaluate_files, next_step
from coad.workflows.model_folder import load_model, save_model
from coad.workflows.recipe import Recipe
from coad.workflows.scored import read_scored
from coad.workflows.scoring import Source, score_files
from coad.workflows.tuning import event_kinds

pytestmark = pytest.mark.filterwarnings("ignore::coad.exceptions.CoadWarning")

N = 1200


def table(seed, shape, with_context):
    """Events of three rows in both inputs, with gaps in time and two runs."""
    rng = np.random.default_rng(seed)
    event = np.zeros(N, dtype=bool)
    for start in rng.integers(0, N - 3, 30):
        event[start : start + 3] = True
    s, q = rng.normal(size=(2, N, *shape))
    s[event] += 2.5
    q[event] += 2.5
    time = np.arange(N) * 0.1
    time[N // 3 :] += 60.0  # the clock stood still
    columns = {"t": time, "run": (np.arange(N) > N // 2).astype(int)}
    if with_context:
        columns["material"] = rng.choice(["steel", "brass"], N)
    return columns, s, q


def files(tmp_path, kind, with_context, seed):
    """A file of rows, of rows that become windows, or of images, and the layout that reads it."""
    more = {"context": ("material",)} if with_context else {}
    if kind == "images":
        columns, s, q = table(seed, (1, 6, 6), with_context)
        path = tmp_path / f"{kind}{seed}.npz"
        np.savez(path, s=s.astype(np.float32), q=q.astype(np.float32), **columns)
        return path, Layout(s=("s",), q=("q",), time="t", time_unit="number", group="run", **more)
    columns, s, q = table(seed, (2,), with_context)
    path = write_parquet(
        tmp_path / f"{kind}{seed}.parquet",
        {**columns, "a": s[:, 0], "b": s[:, 1], "c": q[:, 0], "d": q[:, 1]},
    )
    if kind == "windows":
        more |= {"window": 4, "stride": 2, "max_gap": "1s"}
    return path, Layout(s=("a", "b"), q=("c", "d"), time="t", time_unit="number", group="run", **more)


def numbers_of(found):
    """What must be the same everywhere."""
    return {
        name: getattr(found, name)
        for name in (
            *("n_rows", "flagged", "n_events", "fbeta_hat", "precision_hat", "recall_hat", "alpha", "beta"),
            *("p_value", "shift_p_value", "interval", "intervals", "status", "suspicions"),
        )
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A saved model of a family on a kind of data; trained once."""
    made = {}

    def model(family, kind, with_context):
        if (family, kind, with_context) not in made:
            folder = tmp_path_factory.mktemp("trained")
            path, layout = files(folder, kind, with_context, 0)
            if family == "findings":
                det = Findings(lenses=["clusters"])
            elif family == "modes":
                det = CoincidenceModes(steps=40, n_starts=2, random_state=0)
            else:
                det = CoAD([0.5, 1.0], n_starts=1, epochs=8, random_state=0)
            save_model(det.fit(read_pairs(path, layout)), Recipe(layout), folder / "model")
            made[family, kind, with_context] = folder / "model"
        return load_model(made[family, kind, with_context])

    return model


@pytest.mark.parametrize("with_context", [False, True], ids=["plain", "context"])
@pytest.mark.parametrize("kind", ["rows", "windows", "images"])
@pytest.mark.parametrize(
    "model_kind",
    ["networks", "set by hand", "product", "another beta", "modes", "findings", "findings decided"],
)
def test_every_command_tells_the_same(trained, tmp_path, model_kind, kind, with_context):
    family = model_kind.split()[0]
    model, recipe = trained(family if family in ("modes", "findings") else "networks", kind, with_context)
    if model_kind == "findings decided":
        model.decide(1, "event").decide(2, "normal").decide(3, "ignore")
    if family not in ("modes", "findings"):
        model = model.at(0.5 if model_kind == "another beta" else 1.0)
    if model_kind == "set by hand":
        model.set_threshold(p_s=0.4, p_q=0.45)
    if model_kind == "product":
        model.set_threshold(0.3)
    save_model(model, recipe, tmp_path / "model")
    model, recipe = load_model(tmp_path / "model")
    new, layout = files(tmp_path, kind, with_context, 1)
    source = Source(new)

    pairs = read_pairs(new, layout)
    rows = model.score_rows(pairs)
    python = model.evaluate(pairs)
    assert model.predict(pairs).tolist() == rows.flag.tolist()
    assert model.score(pairs) == python.fbeta_hat

    done = score_files(model, recipe, source, tmp_path / "scores.parquet", batch_rows=256)
    flags = pq.read_table(tmp_path / "scores.parquet")["flag"].to_numpy()
    assert flags.tolist() == rows.flag.tolist()
    assert (done.n_flagged, done.n_events) == (python.flagged, python.n_events)

    report = evaluate_files(model, recipe, source)
    assert numbers_of(report.judgement.evaluation) == numbers_of(python)
    assert (report.judgement.n_flagged, report.judgement.n_events) == (python.flagged, python.n_events)

    scored = read_scored(model, recipe, source)
    write = write_findings_page if family == "findings" else write_model_report
    study = write(tmp_path / "page.html", model, recipe, scored, source=source)
    assert numbers_of(study.evaluation) == numbers_of(python)
    kept = np.ones(len(pairs), dtype=bool) if rows.dismissed is None else ~rows.dismissed
    assert study.flags.tolist() == rows.flag[kept].tolist()
    assert len(study.events) == python.n_events
    assert study.judgement.hint == report.judgement.hint

    everything = read_scored(model, recipe, source, everything=family == "findings")
    made = Explorer(model, recipe, everything, Marks(tmp_path / "m.sqlite"), source=source)
    explorer = open_session(made).current
    tiles, banner = explorer.look(View(0, 0, saved=True)), explorer.judged(View(0, 0, saved=True))
    for name in ("fbeta_hat", "precision_hat", "recall_hat", "alpha"):
        assert tiles["numbers"][name] == getattr(python, name)
    assert tiles["numbers"]["n_joint"] == banner["flagged"] == python.flagged
    assert tiles["events"] == banner["events"] == python.n_events
    assert (banner["status"], banner["p_value"]) == (python.status, python.p_value)
    assert banner["intervals"]["fbeta_hat"] == list(python.interval)
    explorer.prepare()
    assert explorer.more()["ready"]
    assert "failed" not in explorer.more()
    assert len(explorer.events_table(View(0, 0, saved=True))) == python.n_events


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    path, layout = files(folder, "rows", False, 0)
    model = CoAD(n_starts=1, epochs=15, random_state=0).fit(read_pairs(path, layout))
    save_model(model, Recipe(layout), folder / "model")
    return folder, path


@pytest.fixture
def folder(fitted, tmp_path):
    """A copy of the model that a test may change, and its data."""
    import shutil

    shutil.copytree(fitted[0] / "model", tmp_path / "model")
    return tmp_path / "model", fitted[1]


def test_every_detector_fulfils_the_protocol(fitted, tmp_path):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 400))
    s[::20] += 5
    q[::20] += 5
    thresholds = CoincidenceThreshold().fit(s, q, context=np.arange(400) % 2)
    modes = CoincidenceModes(steps=10, n_starts=2, random_state=0).fit(s[:, None], q[:, None])
    for det in (thresholds, load(fitted[0] / "model"), modes):
        assert isinstance(det, Detector)
    assert thresholds.evaluate(s, q, context=np.arange(400) % 2).flagged == thresholds.predict(s, q).sum()
    thresholds.set_threshold(2.5, -math.inf).save(tmp_path / "t")
    again = load(tmp_path / "t")
    assert again.rule_ == thresholds.rule_
    assert again.result_.p_value == thresholds.result_.p_value
    np.testing.assert_array_equal(again.score_samples(s, q), thresholds.score_samples(s, q))
    with pytest.raises(coad.exceptions.InputError, match="scorers cannot be saved"):
        CoincidenceThreshold(np.abs, np.abs).fit(s, q).save(tmp_path / "u")


def test_another_rule_is_kept_and_every_command_uses_it(folder, run_coad, tmp_path):
    model, data = folder
    before = run_coad("score", model, data, "--out", tmp_path / "a.csv")
    said = run_coad("tune", model, data, "--beta", "0.1")
    assert "β 1 → 0.1" in said.out
    rule = load(model).rule_
    assert rule.beta == 0.1
    assert rule.thresholds != (0.5, 0.5)
    after = run_coad("score", model, data, "--out", tmp_path / "b.csv")
    assert before.out != after.out
    flagged = next(line for line in after.out.splitlines() if " flagged (" in line)
    count, events = flagged.split()[0], flagged.split(" in ")[1].split()[0]
    told = run_coad("evaluate", model, data).out
    assert "F̂ (β = 0.1)" in told
    assert [line.split()[-1] for line in told.splitlines() if "flagged rows  " in line] == [count]
    assert f"{events} event" in run_coad("report", model, data, "--out", tmp_path / "r.html").out
    run_coad("tune", model, data, "--threshold-s", "0.9", "--threshold-q", "0.8")
    assert load(model).rule_.thresholds == (0.9, 0.8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threshold-s", "0.3"), "both --threshold-s and --threshold-q"),
        (("--beta", "-1"), "beta must be 0 or more"),
        (("--beta", "nan"), "beta must be 0 or more"),
        (("--threshold-s", "3", "--threshold-q", "0.1"), "must lie in [0, 1]"),
        (("--dismiss", "77"), "no kind 77"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_and_the_model_stays(folder, run_coad, options, words):
    model, data = folder
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    said = run_coad("tune", model, data, *options)
    assert said.code == 2
    assert words in said.err
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_a_dismissed_kind_is_not_flagged_by_any_command_until_it_is_restored(folder, run_coad, tmp_path):
    model, data = folder
    kinds = run_coad("tune", model, data, "--kinds").out
    assert "stability" in kinds
    flagged = load(model).predict(read_pairs(data, load_model(model)[1].layout)).sum()
    run_coad("tune", model, data, "--dismiss", "1")
    det, recipe = load_model(model)
    pairs = read_pairs(data, recipe.layout)
    rows = det.score_rows(pairs)
    assert rows.dismissed.sum() > 0
    assert not (rows.flag & rows.dismissed).any()
    python = det.evaluate(pairs)
    assert python.n_rows == len(pairs) - rows.dismissed.sum()
    done = evaluate_files(det, recipe, Source(data))
    assert numbers_of(done.judgement.evaluation) == numbers_of(python)
    assert done.scored.n_dismissed == rows.dismissed.sum()
    scores = run_coad("score", model, data, "--out", tmp_path / "s.parquet")
    assert pq.read_table(tmp_path / "s.parquet")["flag"].to_numpy().sum() == python.flagged
    assert f"in {python.n_events:,} events" in scores.out
    run_coad("tune", model, data, "--restore", "--threshold-s", "0.5", "--threshold-q", "0.5")
    assert load(model).predict(pairs).sum() == flagged


def session_of(folder, tmp_path):
    model, recipe = load_model(folder[0])
    source = Source(folder[1])
    scored = read_scored(model, recipe, source)
    marks = Marks(tmp_path / "m.sqlite")
    return Session(Explorer(model, recipe, scored, marks, source=source, folder=folder[0]))


def test_a_rule_saved_in_the_explorer_is_that_of_the_model(folder, tmp_path):
    session = session_of(folder, tmp_path)
    view = View(0.7, 0.6, 2.0)
    tiles = session.current.look(view)
    assert tiles["unsaved"]
    said = session.save_rule(view)
    assert "p_s ≥ 0.5 and p_q ≥ 0.5 → p_s ≥ 0.7 and p_q ≥ 0.6; β 1 → 2" in said
    assert f"→ {tiles['numbers']['n_joint']:,} flagged" in said
    model, recipe = load_model(folder[0])
    assert model.rule_.thresholds == (0.7, 0.6)
    assert model.rule_.beta == 2.0
    found = model.evaluate(read_pairs(folder[1], recipe.layout))
    assert (found.flagged, found.n_events) == (tiles["numbers"]["n_joint"], tiles["events"])
    own = session.current.look(View(0, 0, saved=True))
    assert not own["unsaved"]
    assert own["numbers"]["fbeta_hat"] == found.fbeta_hat
    assert "already" in session.save_rule(View(0, 0, saved=True))


def test_a_rule_that_cannot_be_saved_is_not_used(folder, tmp_path, monkeypatch):
    session = session_of(folder, tmp_path)

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(session.base.model, "save", fail, raising=False)
    with pytest.raises(OSError, match="disk full"):
        session.save_rule(View(0.7, 0.6))
    assert session.base.model.rule_.thresholds == (0.5, 0.5)


def test_events_have_start_end_duration_and_peak_in_the_page_and_in_exports(folder, tmp_path):
    session = session_of(folder, tmp_path)
    table = session.current.events_table(View(0, 0, saved=True))
    columns = table.to_pydict()
    scored = session.current.scored
    events = scored.events(scored.flag)
    assert columns["start"] == scored.time[events.first].tolist()
    assert columns["end"] == scored.time[events.last].tolist()
    np.testing.assert_allclose(columns["duration"], np.subtract(columns["end"], columns["start"]))
    assert columns["peak_time"] == scored.time[events.peak].tolist()
    assert columns["n_rows"] == (scored.last[events.last] - scored.first[events.first] + 1).tolist()
    write_model_report(tmp_path / "r.html", session.base.model, session.base.recipe, scored)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<th>start</th><th>end</th><th>duration</th><th>peak</th>" in page


def test_events_end_at_gaps_files_groups_and_where_time_goes_back():
    time = np.r_[np.arange(5.0), np.arange(40.0, 45.0), np.arange(3.0)]
    run = np.r_[np.zeros(7), np.ones(6)]
    assert np.flatnonzero(RowOrder(13, time, run).breaks()).tolist() == [0, 5, 7, 10]
    assert np.flatnonzero(RowOrder(4, row=np.array([0, 1, 2, 90])).breaks()).tolist() == [0, 3]
    kept = RowOrder(13, time, run).take(np.array([0, 1, 3, 4]))
    assert np.flatnonzero(kept.breaks()).tolist() == [0, 2]


def regime_file(tmp_path, *, fault=True):
    """Both inputs follow the material; a label, a copy of the fault and a serial number tell the rest."""
    rng = np.random.default_rng(0)
    material = np.repeat(rng.choice(["steel", "brass", "zinc"], N // 20), 20)
    load_ = (material == "steel") * 3.0
    s, q = rng.normal(size=(2, N, 2)) + load_[:, None]
    event = rng.random(N) < 0.03
    s[event], q[event] = s[event] + 3, q[event] + 3
    return write_parquet(
        tmp_path / "plant.parquet",
        {
            **{f"s{i}": s[:, i] for i in range(2)},
            **{f"q{i}": q[:, i] for i in range(2)},
            "material": material,
            "consequence": (load_ > 0).astype(int),
            "label": (load_ > 0).astype(int),
            "serial": np.arange(N),
            "reading": load_ + rng.normal(size=N) / 100,
        },
    )


def test_advice_names_an_operating_condition_and_never_the_fault(tmp_path, run_coad):
    data = regime_file(tmp_path)
    options = ("--s", "s*", "--q", "q*", "--label", "label", "--epochs", "20", "--starts", "1")
    said = run_coad("fit", data, *options, "--not-context", "conseq*", "--out", tmp_path / "m").out
    assert "shared regime suspected" in said
    assert "--context material" in said
    assert "if it is an operating condition, not a consequence of the fault" in said
    assert set(re.findall(r"--context (\w+)", said)) == {"material"}, "nothing else is suggested"
    for told in (
        run_coad("evaluate", tmp_path / "m", data).out,
        run_coad("report", tmp_path / "m", data, "--out", tmp_path / "r.html").out,
    ):
        assert "--context material" in told
        assert "if it is an operating condition" in told
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "class='numbers'" not in page, "no large figures while a regime is suspected"
    assert "do not count as results" in page


def test_what_is_not_found_comes_with_the_next_thing_to_try(tmp_path, run_coad):
    rng = np.random.default_rng(0)
    data = write_parquet(tmp_path / "x.parquet", dict(zip("abcd", rng.normal(size=(4, 400)), strict=True)))
    said = run_coad(
        "fit", data, "--s", "a,b", "--q", "c,d", "--epochs", "5", "--starts", "1", "--out", tmp_path / "m"
    )
    assert "no coincidence" in said.out
    assert "next: " in said.out
    model, recipe = load_model(tmp_path / "m")
    assert next_step(evaluate_files(model, recipe, Source(data)).judgement).startswith("next: ")


def test_an_evaluation_is_json_but_for_its_arrays(fitted):
    found = load(fitted[0] / "model").evaluate(
        read_pairs(fitted[1], load_model(fitted[0] / "model")[1].layout)
    )
    plain = asdict(replace(found, null_joint=None))
    assert json.loads(json.dumps(plain))["status"] == found.status
    for name in ("fbeta_hat", "precision_hat", "recall_hat", "alpha"):
        low, high = getattr(found.intervals, name)
        assert low <= getattr(found, name) <= high


def test_machines_on_one_clock_are_tested_one_after_the_other():
    """Four machines with the same time stamps, and events in all but the first."""
    rng = np.random.default_rng(0)
    n, machines = 600, 4
    time, run = np.tile(np.arange(n), machines), np.repeat(np.arange(machines), n)
    event = (rng.random(n * machines) < 0.05) & (run > 0)
    p_s, p_q = (np.where(event | (rng.random(len(event)) < 0.02), 0.9, 0.1) for _ in "sq")
    scores = RowScores(p_s, p_q, p_s * p_q, (p_s > 0.5) & (p_q > 0.5))
    for overlap in (1, 4):
        found = assess(scores, Rule(1.0, 0.05), order=RowOrder(n * machines, time, run, overlap=overlap))
        assert found.status == "found"
        assert found.p_value == 0.001
    order = RowOrder(n * machines, time, run).in_time(4)
    assert np.bincount(run[order]).tolist() == [n // 4] * machines, "every machine is heard"
    assert (np.diff(time[order])[np.diff(run[order]) == 0] == 4).all()


def test_one_input_moved_in_short_contexts_is_no_evidence():
    rng = np.random.default_rng(0)
    small = []
    for _ in range(200):
        flags = rng.random((2, 900)) < 0.2
        scores = RowScores(*flags.astype(float), flags[0] * 1.0, flags[0] & flags[1])
        small.append(assess(scores, Rule(1.0, 0.05), context=np.arange(900) // 3).shift_p_value <= 0.01)
    assert np.mean(small) < 0.04


def test_intervals_of_shares_lie_above_zero():
    rng = np.random.default_rng(0)
    flags = rng.random((2, 300)) < 0.3
    scores = RowScores(*flags.astype(float), flags[0] * 1.0, flags[0] & flags[1])
    found = assess(scores, Rule(1.0, 0.05, alpha_given=True), context=np.arange(300) // 4)
    for name in ("fbeta_hat", "precision_hat", "recall_hat"):
        low, high = getattr(found.intervals, name)
        assert low <= getattr(found, name) <= high
        assert low >= min(0.0, getattr(found, name))


def test_a_rule_is_changed_as_a_whole_or_not_at_all(folder):
    model, recipe = load_model(folder[0])
    pairs = read_pairs(folder[1], recipe.layout)
    before = model.rule_
    for wrong in ({"beta": 5, "threshold_s": 0.3}, {"beta": 5, "threshold_s": 3, "threshold_q": 0.1}):
        with pytest.raises(coad.exceptions.InputError):
            model.tune(pairs, **wrong)
        assert model.rule_ == before


def test_dismissing_is_the_same_in_python_and_on_the_command_line(folder, run_coad):
    model, recipe = load_model(folder[0])
    pairs = read_pairs(folder[1], recipe.layout)
    scored = read_scored(model, recipe, Source(folder[1]))
    model.kinds_ = event_kinds(model, scored)[0]
    model.tune(pairs, dismiss=0, beta=0.5)
    run_coad("tune", folder[0], folder[1], "--dismiss", "1", "--beta", "0.5")
    told = load(folder[0]).rule_
    assert (told.thresholds, told.beta) == (model.rule_.thresholds, 0.5)
    assert told.alpha == pytest.approx(model.rule_.alpha)
    said = run_coad("tune", folder[0], folder[1], "--restore").out
    assert load(folder[0]).rule_.thresholds == (0.5, 0.5)
    count = int(read_scored(*load_model(folder[0]), Source(folder[1])).flag.sum())
    assert f"→ {count:,} flagged" in said


def test_a_model_that_was_changed_meanwhile_is_not_overwritten(folder, tmp_path):
    session = session_of(folder, tmp_path)
    other = load(folder[0])
    other.set_threshold(p_s=0.9, p_q=0.9).save(folder[0])
    with pytest.raises(coad.exceptions.InputError, match="was changed since the explorer began"):
        session.save_rule(View(0.7, 0.6))
    assert load(folder[0]).rule_.thresholds == (0.9, 0.9)
    with pytest.raises(coad.exceptions.InputError, match=r"thresholds lie in \[0, 1\]"):
        session.save_rule(View(-5, 0.6))


def test_what_people_keep_beside_a_model_stays(folder, run_coad):
    (folder[0] / "notes.txt").write_text("mine")
    run_coad("tune", *folder, "--beta", "2")
    assert (folder[0] / "notes.txt").read_text() == "mine"


def test_thresholds_come_back_with_their_rate_status_and_p_value(tmp_path):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 400))
    s[::20] += 5
    q[::20] += 5
    det = CoincidenceThreshold(random_state=np.random.default_rng(3)).fit(s, q).tune(2.0, alpha=0.2)
    det.save(tmp_path / "t")
    again = load(tmp_path / "t")
    assert again.rule_ == det.rule_
    assert replace(again.result_, test=None) == replace(det.result_, test=None)
    noise = CoincidenceThreshold().fit(*rng.normal(size=(2, 100)))
    noise.save(tmp_path / "n")
    assert load(tmp_path / "n").result_ == replace(noise.result_, test=None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_span_of_an_event_does_not_depend_on_the_unit_of_its_times(unit):
    from coad.events.runs import event_spans, find_events

    first = np.arange(0, 40, 4)
    time = np.datetime64("2026-01-01T00:00:00", unit) + (60 * (first + 3)).astype("timedelta64[s]")
    spans = event_spans(find_events(np.arange(10) == 5, np.ones(10)), time, first, first + 3)
    assert spans.duration.tolist() == [180.0]


def test_a_rule_chosen_against_the_training_is_counted_and_said_not_to_count(tmp_path, run_coad):
    rng = np.random.default_rng(0)
    data = write_parquet(tmp_path / "x.parquet", dict(zip("abcd", rng.normal(size=(4, 400)), strict=True)))
    run_coad(
        "fit", data, "--s", "a,b", "--q", "c,d", "--epochs", "5", "--starts", "1", "--out", tmp_path / "m"
    )
    run_coad("tune", tmp_path / "m", data, "--threshold-s", "0.2", "--threshold-q", "0.2")
    det, recipe = load_model(tmp_path / "m")
    count = det.predict(read_pairs(data, recipe.layout)).sum()
    assert count > 0
    said = run_coad("score", tmp_path / "m", data, "--out", tmp_path / "s.csv").out
    assert "training found none" in said
    assert f"{count} flagged" in said
    told = run_coad("report", tmp_path / "m", data, "--out", tmp_path / "r.html").out
    assert f"flags {count} of 400 pairs; its figures do not count" in told
    run_coad("tune", tmp_path / "m", data, "--threshold-s", "1", "--threshold-q", "1")
    assert "class='numbers'" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_groups_and_times_end_events_in_python_too(folder):
    model, recipe = load_model(folder[0])
    pairs = read_pairs(folder[1], recipe.layout)
    bare = model.evaluate(pairs.s, pairs.q)
    full = model.evaluate(pairs.s, pairs.q, group=pairs.group, time=pairs.time)
    assert numbers_of(full) == numbers_of(model.evaluate(pairs))
    assert bare.flagged == full.flagged
    assert bare.n_events <= full.n_events
    assert str(model.rule_) == "p_s ≥ 0.5 and p_q ≥ 0.5"
