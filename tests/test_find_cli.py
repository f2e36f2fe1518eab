"""``coad find`` and ``coad decide``, and the commands that follow what was decided."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import coad
from coad.__main__ import app


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """600 rows with two kinds of event in both inputs (labels in ``y``), one column of an operating point."""
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 600, 3))
    kind = np.zeros(600, dtype=int)
    kind[rng.choice(600, 40, replace=False)] = np.repeat([1, 2], 20)
    s[kind == 1, 0] += 7
    q[kind == 1, 0] += 7
    s[kind == 2, 1] -= 7
    q[kind == 2, 2] += 7
    columns = {f"motor_{i}": s[:, i] for i in range(3)} | {f"vib_{i}": q[:, i] for i in range(3)}
    time = pd.date_range("2024-03-01", periods=600, freq="15min")
    path = tmp_path_factory.mktemp("find") / "plant.parquet"
    pd.DataFrame({"t": time, **columns, "y": kind > 0, "material": np.arange(600) % 2}).to_parquet(path)
    return path


COLUMNS = ("--s", "motor_*", "--q", "vib_*", "--time", "t", "--lens", "clusters,tails")


@pytest.fixture(scope="module")
def first_run(table, tmp_path_factory):
    """The folder that ``coad find`` wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("findings") / "run"
    done = CliRunner().invoke(app, ["find", str(table), *COLUMNS, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder, done.output


@pytest.fixture
def run(first_run, tmp_path):
    """A folder of findings, of the test's own."""
    return shutil.copytree(first_run[0], tmp_path / "run")


def test_find_prints_a_ranked_table_and_writes_a_report(first_run):
    folder, text = first_run
    lines = text.splitlines()
    header = next(line for line in lines if line.split()[:2] == ["#", "rows"])
    for name in ("share", "odd in s", "odd in q", "beyond chance", "comes back", "first seen", "flagged"):
        assert name in header
    first = lines[lines.index(header) + 1]
    assert first.split()[0] == "1"
    assert "2024-03-0" in first
    assert first.rstrip().endswith("yes")
    assert (folder / "report.html").stat().st_size > 10_000
    assert "<script src=" not in (folder / "report.html").read_text(encoding="utf-8")


def test_find_never_ends_without_a_list(tmp_path, run_coad):
    rng = np.random.default_rng(1)
    names = [f"s{i}" for i in range(3)] + [f"q{i}" for i in range(3)]
    pd.DataFrame(rng.normal(size=(300, 6)), columns=names).to_csv(tmp_path / "noise.csv", index=False)
    code, text, errors = run_coad(
        *(
            "find",
            tmp_path / "noise.csv",
            "--s",
            "s*",
            "--q",
            "q*",
            "--lens",
            "clusters,tails",
            "--no-report",
        ),
        *("--out", tmp_path / "run"),
    )
    assert code == 0, errors
    assert "chance" in text
    assert sum(line.startswith("  row ") for line in text.splitlines()) == 20


def test_a_detector_of_pyod_is_asked_for_by_name(table, tmp_path, run_coad):
    pytest.importorskip("pyod")
    find = ("find", table, "--s", "motor_*", "--q", "vib_*", "--time", "t", "--no-report")
    code, _, errors = run_coad(*find, "--scorer", "pyod:Nope", "--out", tmp_path / "no")
    assert code == 2
    assert "PyOD has no detector 'Nope'" in errors
    code, _, errors = run_coad(*find, "--scorer", "pyod:ECOD, pyod:HBOS", "--out", tmp_path / "run")
    assert code == 0, errors
    assert coad.load(tmp_path / "run").scorers == ["pyod:ECOD", "pyod:HBOS"]


def test_a_decision_reaches_score_evaluate_and_report(run, table, tmp_path, run_coad):
    def flagged():
        assert run_coad("score", run, table, "--out", tmp_path / "scores.parquet")[0] == 0
        return pq.read_table(tmp_path / "scores.parquet").to_pandas()

    before = flagged()
    assert set(before["finding"]) <= {-1, *range(1, len(coad.load(run)) + 1)}
    code, text, errors = run_coad("decide", run, 1, "normal")
    assert code == 0, errors
    assert "finding 1: yes → no: decided normal" in text
    after = flagged()
    rows = coad.load(run)[1].rows
    assert before["flag"][rows].all()
    assert not after["flag"][rows].any()
    assert int(before["flag"].sum()) > int(after["flag"].sum())
    code, text, errors = run_coad("evaluate", run, table, "--label", "y")
    assert code == 0, errors
    assert f"flagged rows {int(after['flag'].sum())}" in " ".join(text.split())
    assert "after 5 looks" in text
    code, text, errors = run_coad("report", run, table, "--out", tmp_path / "page.html")
    assert code == 0, errors
    assert "decided normal" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_decision_is_taken_back_with_undecided(run, run_coad):
    run_coad("decide", run, 2, "ignore")
    assert coad.load(run)[2].decision == "ignore"
    assert run_coad("decide", run, 2, "undecided")[0] == 0
    assert coad.load(run)[2].decision is None


def test_decide_without_a_number_shows_the_list(run, run_coad):
    code, text, _ = run_coad("decide", run)
    assert code == 0
    assert "beyond chance" in text


def test_columns_may_be_named_by_several_options(table, tmp_path, run_coad):
    columns = ("--s", "motor_0", "--s", "motor_1", "--q", "vib_*", "--lens", "tails")
    code, text, error = run_coad("find", table, *columns, "--out", tmp_path / "run")
    assert code == 0, error
    assert "s: motor_0, motor_1\n" in text


def test_labels_do_not_change_what_is_found(first_run, table, tmp_path, run_coad):
    code, text, errors = run_coad(
        "find", table, *COLUMNS, "--label", "y", "--no-report", "--out", tmp_path / "run"
    )
    assert code == 0, errors
    assert text.splitlines()[3:8] == first_run[1].splitlines()[3:8]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("decide", "{run}", 99, "event"), "there is no finding 99: they are numbered from 1 to"),
        (("decide", "{run}", 1), "say what finding 1 is"),
        (("tune", "{run}", "{table}", "--beta", 0.1), "holds findings"),
        (("role", "{run}", 1, "rare"), "is not a catalogue of modes"),
        (("decide", "{folder}", 1, "event"), "is not a saved model"),
        (("find", "{table}", "--s", "motor_*", "--q", "motor_*"), "motor_0"),
        (("find", "{table}", "--s", "motor_*", "--q", "vib_*", "--lens", "glasses"), "no lens 'glasses'"),
        (("find", "{table}", "--s", "motor_*", "--q", "vib_*", "--max-rare", 2), "max_rare"),
    ],
)
def test_wrong_use_is_one_line(run, table, tmp_path, run_coad, arguments, words):
    places = {"run": run, "folder": tmp_path, "table": table}
    given = [one.format(**places) if isinstance(one, str) else one for one in arguments]
    more = ["--out", tmp_path / "new"] if given[0] == "find" else []
    code, _, errors = run_coad(*given, *more)
    assert code == 2
    assert words in errors
    assert "Traceback" not in errors


def test_a_file_that_lacks_a_column_is_one_line(run, table, tmp_path, run_coad):
    pd.read_parquet(table).drop(columns="vib_2").to_parquet(tmp_path / "new.parquet")
    code, _, errors = run_coad("score", run, tmp_path / "new.parquet", "--out", tmp_path / "scores.csv")
    assert code == 2
    assert "vib_2" in errors
