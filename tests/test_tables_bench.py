"""``coad bench --data tables``: label efficiency on labelled tables, honest about tables that fail."""

from __future__ import annotations

import re

import numpy as np
import pytest
from makers import FakeFindings

import coad
from benchmarks import findings as benchmark
from coad.core.label_efficiency import LabelEfficiency
from coad.exceptions import FileError, InputError
from coad.research.baselines.few_labels import FewLabelPeers
from coad.research.datasets.tables import load_table, table_files
from coad.research.experiments.tables import (
    COLUMNS,
    TableResult,
    cells,
    in_words,
    mean_values,
    ratios,
    run_tables,
)


def write_table(path, n=240, *, seed=0, **more):
    """A table whose first column of s names the finding: 0 is ordinary, 2 the event, 1 something else."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=(0.7, 0.15, 0.15))
    s = np.column_stack([kind, rng.normal(size=n)]).astype(np.float32)
    q = (rng.normal(size=(n, 2)) + 5 * (kind == 2)[:, None]).astype(np.float32)
    np.savez(path, **{"s": s, "q": q, "y": kind == 2, **more})
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tables").mkdir()
    write_table(tmp_path / "tables" / "press.npz")
    write_table(
        tmp_path / "tables" / "lathe.npz", seed=1, group=np.arange(240) // 20, time=np.arange(240), context=np.arange(240) % 3
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def calls(monkeypatch):
    """``coad.find`` in place: finding 1 is flagged by default, finding 2, the event, is not."""
    made = []

    def find(s, q, **settings):
        made.append((s, settings))
        return FakeFindings(s, [True, False])

    monkeypatch.setattr(coad, "find", find, raising=False)
    return made


def result(name="a", looks=1, default=0.2, after=0.8, best=0.4, supervised=1.0, seed=0):
    f1 = {0: default, 5: after, 10: after}
    peers = FewLabelPeers(0.1, best, {5: 0.3, 10: 0.6}, supervised)
    return TableResult(name, seed, 100, 0.1, LabelEfficiency(7, looks, f1, f1), peers, 2.0)


# The reader.


def test_a_table_is_read_with_everything_that_it_holds(tmp_path):
    n = 240
    path = write_table(
        tmp_path / "a.npz", group=np.arange(n) // 9, time=np.arange(n), names_s=["a", "b"], names_q=["c", "d"]
    )
    pairs = load_table(path)
    assert len(pairs) == n
    assert pairs.label.dtype == bool
    assert pairs.s_names == ("a", "b")
    assert pairs.group.max() == (n - 1) // 9
    assert pairs.time is not None
    assert pairs.context is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"s": np.zeros((3, 1)), "q": np.zeros((3, 1))}, "y missing; the file holds s, q"),
        ({"x": np.zeros(3)}, "s, q, y missing"),
        ({"s": np.zeros((3, 1)), "q": np.zeros((2, 1)), "y": [0, 0, 1]}, "must match row by row"),
        ({"s": np.zeros((3, 1)), "q": np.zeros((3, 1)), "y": [0, 1]}, "one entry per row"),
        ({"s": np.zeros((3, 1)), "q": np.zeros((3, 1)), "y": [0, 2, 1]}, "True and False"),
        ({"s": np.zeros((3, 1)), "q": np.zeros((3, 1)), "y": [0, 0, 0]}, "same for all rows"),
        ({"s": np.full((3, 1), np.nan), "q": np.zeros((3, 1)), "y": [0, 0, 1]}, "missing or infinite"),
        ({"s": np.zeros((3, 1)), "q": np.zeros((3, 1)), "y": [0, 0, 1], "names_s": ["a", "b"]}, "names_s has 2"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_judged_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **content)
    with pytest.raises(InputError, match=rf"bad\.npz.*{message}"):
        load_table(path)


def test_a_file_of_another_kind_is_refused_by_name(tmp_path):
    path = tmp_path / "bad.npz"
    path.write_text("hello")
    with pytest.raises(FileError, match=r"bad\.npz cannot be read"):
        load_table(path)
    with pytest.raises(FileError, match=r"gone\.npz cannot be read"):
        load_table(tmp_path / "gone.npz")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileError, match="single array"):
        load_table(path)
    np.savez(path, s=np.array([{}, {}], dtype=object), q=np.zeros(2), y=[0, 1])
    with pytest.raises(FileError, match="cannot be read"):  # pickles are never loaded
        load_table(path)


def test_tables_are_found_through_the_folder_or_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("COAD_DATA", raising=False)
    with pytest.raises(FileError, match="COAD_DATA"):
        table_files()
    monkeypatch.setenv("COAD_DATA", str(folder))
    assert [path.stem for path in table_files()] == ["lathe", "press"]
    assert table_files(folder / "tables") == table_files()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"no \.npz files"):
        table_files(tmp_path / "empty")


# The measurement.


def test_find_sees_three_quarters_of_the_rows_in_their_order_and_no_labels(folder, calls):
    lathe, press = run_tables(folder, random_state=3)
    assert (lathe.error, press.error) == ("", "")
    (s_lathe, with_time), (s_press, without) = calls
    assert with_time["ordered"] is True
    assert without["ordered"] is False
    assert without["time"] is None
    assert without["random_state"] == 3
    assert set(without) == {"group", "time", "ordered", "random_state"}
    assert len(s_press) == 180
    assert len(np.unique(with_time["group"])) == 9  # of 12
    assert all((with_time["group"] == group).sum() == 20 for group in np.unique(with_time["group"]))
    whole = load_table(folder / "tables" / "lathe.npz")
    assert np.array_equal(s_lathe, whole.s[with_time["time"].astype(int)])
    assert (np.diff(with_time["time"]) > 0).all()


def test_each_table_is_judged_by_default_and_after_looks(folder, calls):
    for one in run_tables(folder):
        assert one.n_rows == 240
        assert one.efficiency.looks_to_event == 2
        assert one.efficiency.f1_test == {0: 0.0, 5: 1.0, 10: 1.0}
        assert one.peers.supervised > 0.9
        assert list(one.values()) == list(COLUMNS)


def test_a_table_that_fails_is_a_line_of_its_own(folder, calls):
    (folder / "tables" / "bad.npz").write_text("hello")
    group = np.arange(240) >= 200
    label = np.arange(240) == 239  # the event is in one of two groups only
    write_table(folder / "tables" / "one.npz", y=label, group=group)
    bad, lathe, one, press = run_tables(folder)
    assert "FileError" in bad.error
    assert "hold no event with seed 0" in one.error
    assert lathe.values()
    assert press.values()
    assert mean_values([bad, lathe, press]) == mean_values([lathe, press])
    assert "No table" in in_words([bad])


def test_without_find_the_benchmark_says_so(folder, monkeypatch):
    monkeypatch.setattr("coad.research.experiments.tables.import_module", lambda name: object())
    with pytest.raises(InputError, match=r"no coad\.find"):
        run_tables(folder)


def test_ratios_are_means_over_tables_and_leave_out_a_peer_at_zero():
    known = ratios([result(), result("b", looks=4, default=0.4), result("c", looks=None, supervised=0.0)])
    assert known["default / IF best"] == pytest.approx((0.5 + 1.0 + 0.5) / 3)
    assert known["after 5 / supervised"] == pytest.approx(0.8)
    assert known["event first"] == pytest.approx(1 / 3)
    assert known["event in first five"] == pytest.approx(2 / 3)
    assert ratios([])["default / IF best"] is None


def test_a_table_without_a_finding_of_the_event_has_a_dash():
    line = dict(zip(COLUMNS, cells(result(looks=None).values()), strict=True))
    assert line["looks"] == "–"
    assert line["rate"] == "10.0%"
    assert cells({}) == ["–"] * len(COLUMNS)


# The command and the recorded section.


def test_the_command_prints_every_table_the_means_and_the_ratios(folder, calls, run_coad):
    page = folder / "page.html"
    done = run_coad("bench", "--data", "tables", "--folder", folder, "--out", page)
    assert done.code == 0, done.err
    for word in ("lathe", "press", "mean", "supervised", "default / IF best 0.00", "first five in 100%"):
        assert word in done.out
    assert "lathe" in page.read_text(encoding="utf-8")


def test_the_exit_code_tells_that_a_table_failed(folder, calls, run_coad):
    (folder / "tables" / "bad.npz").write_text("hello")
    done = run_coad("bench", "--data", "tables", "--folder", folder, "--out", folder / "page.html")
    assert done.code == 1
    assert re.search(r"^bad failed: FileError", done.out, re.M)
    assert "press" in done.out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--data", "tables,rf"], "benchmark of its own"),
        (["--data", "tables", "--methods", "lof", "--quick"], "--methods, --quick"),
        (["--data", "tables", "--label", "y"], "not --label"),
    ],
)
def test_options_without_a_meaning_for_tables_are_refused(folder, calls, run_coad, more, message):
    done = run_coad("bench", *more, "--folder", folder, "--out", folder / "page.html")
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not calls


def test_the_recorded_section_averages_over_random_states_and_names_failures():
    results = [
        result(default=0.2),
        result(default=0.4, seed=1),
        TableResult("b", 1, error="InputError: no event"),
    ]
    text = benchmark.body(results)
    (line,) = (line for line in text.splitlines() if line.startswith("| a |"))
    assert "| 0.300 |" in line
    assert "b, random_state 1, failed: InputError: no event." in text
    assert "| b |" not in text
