"""The report of a model: events, numbers at any thresholds, and one page that opens offline."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import naive
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import HOSTILE, event_rows, scored_pairs, write_parquet

pytest.importorskip("torch")
pytest.importorskip("plotly")

from coad import select_thresholds
from coad.data.layout import Layout
from coad.events.runs import events_table, find_events
from coad.report.drawings import NormalRange, describe, draw, shape_kind
from coad.report.model_page import write_model_report
from coad.report.page import safe_json_text
from coad.report.study import Study
from coad.report.words import p_text, verdict
from coad.workflows.model_folder import save_model
from coad.workflows.recipe import Recipe
from coad.workflows.scored import RowStore, read_scored
from coad.workflows.scoring import Source

RECIPE = Recipe(Layout(s=("a", HOSTILE), q=("c", "d")))


@pytest.fixture(scope="module")
def model(two_column_model):
    return two_column_model


def with_everything(n=900, seed=0):
    rng = np.random.default_rng(seed)
    code = np.arange(n) // 50 % 3
    return scored_pairs(
        n,
        seed=seed,
        time=np.datetime64("2026-03-09T10:00:00", "ns") + np.arange(n) * np.timedelta64(500, "ms"),
        id=np.array([f"{HOSTILE}{i}" for i in range(n)]),
        contexts=("steel", "</script><b>brass", "a & b"),
        code=code,
        label=rng.random(n) < 0.1,
        unseen=(("a & b", int((code == 2).sum())),),
    )


class Page(HTMLParser):
    """What a browser would find: elements that load or run something, figures, and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.figures, self.scripts = [], [], [], 0
        self.text, self._in = [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.tags.append(tag)
        for name in ("src", "href", "data", "action"):
            value = known.get(name) or ""
            if value and not value.startswith(("#", "data:image/png;base64,")):
                self.loads.append((tag, value))
        assert not any(name.startswith("on") for name in known), known
        self._in = None
        if tag == "script":
            self._in = "json" if known.get("type") == "application/json" else "script"
            self.scripts += self._in == "script"

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in == "json":
            self.figures.append(json.loads(data))
        elif self._in is None:
            self.text.append(data)


def page_of(path):
    return Page(path.read_text(encoding="utf-8"))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.booleans()), max_size=30))
def test_events_are_the_runs_that_a_loop_finds(rows):
    flags, score, breaks = (np.array([row[i] for row in rows]) for i in range(3))
    flags, breaks = flags.astype(bool), breaks.astype(bool)
    runs = []
    for i, flag in enumerate(flags):
        if flag and i and flags[i - 1] and not breaks[i]:
            runs[-1].append(i)
        elif flag:
            runs.append([i])
    events = find_events(flags, score, breaks)
    assert events.first.tolist() == [run[0] for run in runs]
    assert events.last.tolist() == [run[-1] for run in runs]
    assert events.peak.tolist() == [max(run, key=lambda i: (score[i], -i)) for run in runs]
    of = {i: number for number, run in enumerate(runs) for i in run}
    assert events.of_pair(np.arange(len(rows))).tolist() == [of.get(i, -1) for i in range(len(rows))]


def test_no_event_is_an_empty_table():
    p = np.zeros(4)
    table = events_table(find_events(p > 1, p), p, p, first_row=np.arange(4), last_row=np.arange(4))
    assert len(table) == 0
    assert "score" in table.column_names


def test_rows_come_back_alike_from_memory_and_from_disk():
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(size, 2, 3)).astype(np.float32) for size in (5, 1, 7)]
    large, small = RowStore(), RowStore(in_memory=150)
    for block in blocks:
        large.add(block)
        small.add(block)
    whole = np.concatenate(blocks)
    for store in (large, small):
        np.testing.assert_array_equal(store.rows([12, 0, 5]), whole[[12, 0, 5]])
        assert len(store) == 13


@pytest.mark.parametrize("regimes", [False, True], ids=["plain", "regimes"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0, math.inf])
def test_numbers_at_any_thresholds_are_those_of_the_metric(model, regimes, beta):
    data = with_everything(300) if regimes else scored_pairs(300)
    study = Study(data, model, RECIPE)
    for t_s, t_q in ((0.3, 0.6), (0.9, 0.05), study.best(1.0)):
        numbers = study.numbers_at(t_s, t_q, beta)
        flag_s, flag_q = data.p_s >= t_s, data.p_q >= t_q
        expected = naive.fbeta(flag_s, flag_q, beta=beta, alpha=study.alpha, context=data.code)
        assert numbers.fbeta_hat == pytest.approx(expected, abs=1e-9)
        assert numbers.n_joint == sum(a and b for a, b in zip(flag_s, flag_q, strict=True))
    assert study.numbers_at(2.0, 2.0, beta).fbeta_hat == 0.0


@pytest.mark.parametrize("regimes", [False, True], ids=["plain", "regimes"])
def test_the_best_thresholds_are_those_that_select_thresholds_finds(model, regimes):
    data = with_everything(400) if regimes else scored_pairs(400)
    study = Study(data, model, RECIPE)
    found = select_thresholds(
        data.p_s, data.p_q, beta=1.0, alpha=study.alpha, context=data.code, background="independent"
    )
    assert found.status == "found"
    best = study.best(1.0)
    assert best == (found.threshold_s, found.threshold_q)
    assert study.numbers_at(*best, 1.0).fbeta_hat == pytest.approx(found.fbeta_hat)


def test_the_surface_holds_the_numbers_of_its_thresholds(model):
    study = Study(with_everything(300), model, RECIPE)
    surface = study.surface()
    for i, j in ((0, 0), (5, 9), (-1, -1), (12, 3)):
        numbers = study.numbers_at(surface.threshold_s[i], surface.threshold_q[j], 1.0)
        assert surface.fbeta_hat[i, j] == pytest.approx(numbers.fbeta_hat if numbers.n_joint else 0.0)


def test_thresholds_set_in_the_model_are_kept(model):
    tuned = model.at(1.0).set_threshold(p_s=0.4, p_q=0.7)
    data = scored_pairs(500)
    study = Study(data, model, RECIPE).under(tuned.rule_)
    assert study.flags.tolist() == ((data.p_s >= 0.4) & (data.p_q >= 0.7)).tolist()
    assert study.evaluation.flagged == study.flags.sum()
    assert study.start == (0.4, 0.7)


def test_a_model_without_coincidence_flags_nothing_whatever_the_data(model):
    blind = model.at(1.0)
    blind.fitted_[1.0].status = "no coincidence"
    blind.rule_ = replace(blind.rule_, thresholds=(math.inf, math.inf))
    data = scored_pairs(500)
    study = Study(replace(data, flag=blind.rule_.flags(data.p_s, data.p_q)), blind, RECIPE)
    assert study.evaluation.flagged == 0
    assert "training found none" in verdict(study)
    assert "Nothing is flagged" in verdict(study)


def test_the_verdict_comes_first_and_says_how_many_how_sure(model, tmp_path):
    study = write_model_report(tmp_path / "r.html", model, RECIPE, with_everything())
    text = " ".join(page_of(tmp_path / "r.html").text)
    said = verdict(study)
    assert re.match(
        r"\d+ events \(\d+ of 900 pairs flagged\); of the flagged, \d+ % are not explained by chance; about \d+ % of "
        r"what coincides is found; F̂ 0\.\d\d \(.*\); p ≤ 0\.001\.",
        said,
    )
    assert text.index(said) < text.index("Estimates") < text.index("Assumptions")
    assert f"{len(study.events):,} event" in said


@pytest.mark.parametrize(
    ("p", "n", "text"), [(1 / 200, 199, "p ≤ 0.005"), (0.03, 199, "p = 0.03"), (1.0, None, "p not computed")]
)
def test_the_least_possible_p_value_is_a_bound(model, p, n, text):
    found = Study(scored_pairs(200), model, RECIPE).evaluation
    assert p_text(replace(found, p_value=p, null_joint=None if n is None else np.zeros(n))) == text


SHAPES = {
    "table": (2,),
    "one column": (1,),
    "waves": (2, 40),
    "images": (12, 12),
    "colour": (3, 10, 10),
    "many channels": (9, 30),
}


@pytest.mark.parametrize("name", SHAPES)
def test_inputs_of_any_shape_are_drawn(name):
    rng = np.random.default_rng(0)
    shape = SHAPES[name]
    rows = rng.normal(size=(50, *shape)).astype(np.float32)
    low, middle, high = np.quantile(rows, (0.05, 0.5, 0.95), axis=0)
    names = tuple(f"c{i}" for i in range(shape[0])) if name not in ("images", "colour") else ("pic",)
    normal = NormalRange(low, middle, high)
    drawing = draw(rows[0], names, normal, HOSTILE)
    assert drawing.startswith("<svg")
    assert "nan" not in drawing.lower()
    assert "<script" not in drawing
    plain = describe(rows[0], names, normal)
    assert plain["kind"] == shape_kind(shape, names)
    json.dumps(plain, allow_nan=False)
    constant = np.zeros(shape, dtype=np.float32)
    assert "nan" not in draw(constant, names, NormalRange(constant, constant, constant)).lower()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: scored_pairs(), id="bare table"),
        pytest.param(
            lambda: scored_pairs(shape=(2, 40), windows=True, overlap=2, last=np.arange(900) + 39),
            id="windows",
        ),
        pytest.param(
            lambda: scored_pairs(shape=(12, 12), label=np.zeros(900, dtype=bool)), id="images, labels"
        ),
        pytest.param(with_everything, id="everything"),
        pytest.param(lambda: scored_pairs(time=np.arange(900) * 0.1), id="time as numbers"),
        pytest.param(lambda: scored_pairs(60), id="few rows"),
    ],
)
def test_one_page_holds_all_of_it_offline_and_hostile_names_are_text(model, tmp_path, data):
    write_model_report(tmp_path / "r.html", model, RECIPE, data(), names=HOSTILE)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.loads == []
    assert page.scripts == 2, "plotly once, and what draws"
    assert len(page.figures) >= 6
    assert len(text) < 6_500_000
    words = " ".join(page.text)
    for heading in (
        "β scan",
        "Against chance",
        "Training",
        "Events",
        "Disagreements",
        "By regime",
        "Assumptions",
        "Settings",
    ):
        assert heading in words
    assert HOSTILE in words, "as text"


def test_where_there_is_nothing_the_page_says_so_and_shows_why(model, tmp_path):
    data = scored_pairs(600, coincide=False, seed=3)
    study = write_model_report(tmp_path / "r.html", model, RECIPE, data)
    assert study.status == "no coincidence"
    page = page_of(tmp_path / "r.html")
    words = " ".join(page.text)
    assert "No event found in 600 pairs" in words
    assert "is no more than chance gives" in words
    assert "Next: longer windows" in words
    assert "shuffled pairings" in words
    assert len(page.figures) >= 5, "the scatter, the surface, the curve, the scan and chance show why"


def test_confidences_without_any_threshold_are_a_page_too(model, tmp_path):
    data = scored_pairs(300)
    flat = replace(data, p_s=np.full(300, 0.2))
    study = write_model_report(tmp_path / "r.html", model, RECIPE, flat)
    assert study.status == "no coincidence"
    assert "No event found" in " ".join(page_of(tmp_path / "r.html").text)


def test_the_same_data_give_the_same_page(model, tmp_path):
    for name in "ab":
        write_model_report(tmp_path / f"{name}.html", model, RECIPE, with_everything(400))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_hundred_thousand_windows_fit_in_ten_megabytes(model, tmp_path):
    data = scored_pairs(100_000, shape=(2, 16), rate=0.05, windows=True, time=np.arange(100_000) * 0.1)
    write_model_report(tmp_path / "r.html", model, RECIPE, data)
    assert (tmp_path / "r.html").stat().st_size < 10_000_000
    assert "fixed random sample" in " ".join(page_of(tmp_path / "r.html").text)


def test_json_inside_a_script_cannot_end_it():
    text = safe_json_text(json.dumps({"name": "</script><!-- \u2028 & >"}, ensure_ascii=False))
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"name": "</script><!-- \u2028 & >"}


def test_training_history_is_drawn_where_the_model_has_it(model, tmp_path):
    assert model.history_
    write_model_report(tmp_path / "r.html", model, RECIPE, scored_pairs(300))
    names = [
        trace.get("name", "") for figure in page_of(tmp_path / "r.html").figures for trace in figure["data"]
    ]
    assert sum(name.startswith("seed ") for name in names) == 2
    assert sum(name.endswith("(kept)") for name in names) == 1


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    """A saved model, data that fit it, and data that do not."""
    folder = tmp_path_factory.mktemp("report")
    s, q, event = event_rows(400, (2,), rate=0.08, shift=(4, 4), seed=1)
    table = dict(zip(("a", HOSTILE, "c", "d"), (*s.T, *q.T), strict=True))
    write_parquet(folder / "new.parquet", {**table, "bad": event.astype(int)})
    write_parquet(folder / "other.parquet", {"a": table["a"], "x": table["c"]})
    save_model(model, RECIPE, folder / "model")
    return folder


def test_read_scored_keeps_what_the_model_says_of_every_row(model, files):
    data = read_scored(model, RECIPE, Source(files / "new.parquet"), label="bad")
    table = pq.read_table(files / "new.parquet")
    s = np.stack([table[name].to_numpy() for name in ("a", HOSTILE)], axis=1)
    q = np.stack([table[name].to_numpy() for name in ("c", "d")], axis=1)
    p_s, p_q = model.confidences(s, q)
    np.testing.assert_allclose(data.p_s, p_s, atol=1e-6)
    np.testing.assert_allclose(data.p_q, p_q, atol=1e-6)
    np.testing.assert_allclose(data.s.rows([7, 3]), s[[7, 3]], rtol=1e-6)
    assert data.label.tolist() == [bool(x) for x in table["bad"].to_pylist()]


def test_the_command_writes_the_page_and_prints_the_verdict(files, tmp_path, run_coad):
    page = tmp_path / "r.html"
    code, out, err = run_coad(
        "report", files / "model", files / "new.parquet", "--out", page, "--label", "bad"
    )
    assert code == 0, err
    assert re.match(r"\d+ events? .*of 400 pairs", out)
    assert out.splitlines()[0] in " ".join(page_of(page).text)
    assert "Judged by the labels" in " ".join(page_of(page).text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ("model", "other.parquet"), ["lacks 3 of the model's 4 columns"], id="data of another plant"
        ),
        pytest.param(("model", "missing.parquet"), ["missing.parquet"], id="no such file"),
        pytest.param(("nothing", "new.parquet"), ["does not exist", "coad fit"], id="no such model"),
        pytest.param(("model", "new.parquet", "--out", "r.pdf"), [".html"], id="not a page"),
        pytest.param(("model", "new.parquet", "--out", "no/r.html"), ["no folder"], id="no such folder"),
        pytest.param(
            ("model", "new.parquet", "--label", "a"), ["label and also an input"], id="an input as label"
        ),
        pytest.param(("model",), ["give either one file"], id="no data"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(files, tmp_path, monkeypatch, run_coad, arguments, words):
    monkeypatch.chdir(tmp_path)
    places = [
        files / one if one in ("model", "nothing") or one.endswith(".parquet") else one for one in arguments
    ]
    code, _, err = run_coad("report", *places)
    assert code == 2
    assert err.startswith("coad: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not list(tmp_path.iterdir())
