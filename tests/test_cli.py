"""The command line as a user meets it: in a process of its own where that matters, else in this one."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coad.research.datasets.synthetic import synthetic_outliers


def coad(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "coad", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120"},
        timeout=120,
    )


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    data = synthetic_outliers(3000, random_state=0)
    path = tmp_path_factory.mktemp("cli") / "scores.csv"
    rows = [
        f"{a!r},{b!r},run{i % 2}"
        for i, (a, b) in enumerate(zip(data.s.tolist(), data.q.tolist(), strict=True))
    ]
    path.write_text("score_s,score_q,run\n" + "\n".join(rows) + "\n")
    return path


def test_thresholds_prints_the_few_lines_that_matter(scores):
    run = coad("thresholds", scores, "--s", "score_s", "--q", "score_q", "--beta", 1)
    assert run.returncode == 0, run.stderr
    for word in ("found", "threshold on score_s", "P̂", "p-value", "anomaly rate"):
        assert word in run.stdout


def test_thresholds_as_json_agree_with_the_library(scores):
    import coad as library

    run = coad(
        "thresholds",
        scores,
        "--s",
        "score_s",
        "--q",
        "score_q",
        "--json",
        "--context",
        "run",
        "--alpha",
        0.05,
    )
    result = json.loads(run.stdout)
    data = synthetic_outliers(3000, random_state=0)
    ours = library.select_thresholds(data.s, data.q, alpha=0.05, context=np.arange(len(data.s)) % 2)
    assert result["threshold_s"] == ours.threshold_s
    assert result["n_joint"] == ours.n_joint
    assert result["p_value"] == ours.p_value
    assert result["n_strata"] == 2


def test_text_in_a_table_of_flags_is_no_formula(tmp_path, run_coad):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    context = np.where(np.arange(200) % 2, "=1+1", "-5")
    lines = [f"{one},{one},{text}" for one, text in zip(x, context, strict=True)]
    (tmp_path / "plant.csv").write_text("\n".join(["a,b,@c", *lines]))
    ran = run_coad(
        *("thresholds", tmp_path / "plant.csv", "--s", "a", "--q", "b", "--context", "@c"),
        *("--out", tmp_path / "flags.csv"),
    )
    assert ran.code == 0, ran.err
    head, *rows = (tmp_path / "flags.csv").read_text().splitlines()
    assert '"\'@c"' in head
    assert any('"\'=1+1"' in row for row in rows)
    assert any('"-5"' in row for row in rows)


def test_flags_can_be_written(scores, tmp_path, run_coad):
    for name in ("flags.csv", "flags.parquet"):
        ran = run_coad("thresholds", scores, "--s", "score_s", "--q", "score_q", "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    import pyarrow.csv
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "flags.parquet")
    assert 0 < sum(table["flag"].to_pylist()) < len(table)
    assert pyarrow.csv.read_csv(tmp_path / "flags.csv")["flag"].to_pylist() == table["flag"].to_pylist()


def test_odd_column_names_are_shown_as_they_are(tmp_path):
    data = synthetic_outliers(500, random_state=0)
    long = "isolation forest score of the motor currents of station twelve, channel 3 [dBm]"
    rows = [f"{a!r},{b!r}" for a, b in zip(data.s.tolist(), data.q.tolist(), strict=True)]
    path = tmp_path / "odd.csv"
    path.write_text(f'"{long}",vib [/mm]\n' + "\n".join(rows) + "\n")
    run = subprocess.run(
        [sys.executable, "-m", "coad", "thresholds", path, "--s", long, "--q", "vib [/mm]"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "ascii"},
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert "vib [/mm]" in run.stdout
    assert "dBm]" in run.stdout
    assert "flagged rows" in run.stdout


def test_the_input_file_is_never_overwritten(scores, run_coad):
    before = scores.read_bytes()
    ran = run_coad("thresholds", scores, "--s", "score_s", "--q", "score_q", "--out", scores)
    assert ran.code == 2
    assert scores.read_bytes() == before


@pytest.mark.slow
def test_demo_writes_a_page_that_needs_no_network(tmp_path):
    run = coad("demo", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("found: ") == 2, "both modes find the events"
    page = (tmp_path / "coad-demo.html").read_text()
    assert page.count("data-figure='") == 5
    assert "<script src=" not in page
    assert 'src="http' not in page


@pytest.mark.slow
def test_reproduce_synthetic_prints_both_panels(tmp_path):
    run = coad("reproduce", "synthetic", "--out", tmp_path / "figure.html")
    assert run.returncode == 0, run.stderr
    assert "Left panel" in run.stdout
    assert "Right panel" in run.stdout
    assert (tmp_path / "figure.html").stat().st_size > 100_000


BAD = {
    "missing column": (["--s", "score_x", "--q", "score_q"], "score_s"),
    "same column": (["--s", "score_s", "--q", "score_s"], "same column"),
    "text column": (["--s", "run", "--q", "score_q"], "run"),
    "negative beta": (["--s", "score_s", "--q", "score_q", "--beta", "-1"], "beta must be"),
    "alpha too large": (["--s", "score_s", "--q", "score_q", "--alpha", "0.7"], "alpha"),
    "too few shuffles": (["--s", "score_s", "--q", "score_q", "--permutations", "3"], "cannot reach"),
    "alpha not a number": (["--s", "score_s", "--q", "score_q", "--alpha", "many"], "alpha"),
    "no such folder": (["--s", "score_s", "--q", "score_q", "--out", "/no/such/folder/x.csv"], "no folder"),
    "odd ending": (["--s", "score_s", "--q", "score_q", "--out", "flags.xyz"], ".parquet"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_what_a_user_gets_wrong_is_one_line_and_exit_code_2(scores, run_coad, case):
    arguments, word = BAD[case]
    code, _, err = run_coad("thresholds", scores, *arguments)
    assert code == 2
    assert word in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.csv", None, "no file or folder"),
        ("empty.csv", b"", "empty.csv' is empty"),
        ("header.csv", b"score_s,score_q\n", "header.csv' has a header but no rows"),
        ("short.csv", b"score_s,score_q\n1,2\n", "only 1 usable row"),
        ("gap.csv", b"score_s,score_q\n" + b"1,2\n" * 20 + b",3\n", "first at row 20"),
        ("torn.parquet", b"PAR1 this is no parquet file", "torn.parquet': it is truncated"),
        ("noise.csv", bytes(range(256)) * 4, "noise.csv': it is neither text"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_what_is_wrong(tmp_path, run_coad, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, _, err = run_coad("thresholds", path, "--s", "score_s", "--q", "score_q")
    assert code == 2
    assert "Traceback" not in err
    assert err.startswith("coad: ")
    assert words in err


def test_an_error_ends_the_process_with_exit_code_2_and_one_line(tmp_path):
    run = coad("thresholds", tmp_path / "absent.csv", "--s", "a", "--q", "b")
    assert run.returncode == 2
    assert "absent.csv" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_lists_are_no_scores_and_no_contexts(tmp_path, run_coad):
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"a": np.arange(50.0), "b": np.arange(50.0), "z": [[1.0, 2.0]] * 50}), path)
    for more in (("--q", "z"), ("--q", "b", "--context", "z"), ("--q", "z", "--max-rows", 10)):
        code, _, errors = run_coad("thresholds", path, "--s", "a", *more)
        assert (code, len(errors.splitlines())) == (2, 1)
        assert "'z' has 2 values per row" in errors


def test_rows_without_a_score_can_be_dropped(tmp_path, scores, run_coad):
    path = tmp_path / "gaps.csv"
    path.write_text(scores.read_text() + ",1.0,run0\n")
    arguments = ("thresholds", path, "--s", "score_s", "--q", "score_q")
    refused = run_coad(*arguments)
    assert refused.code == 2
    assert "--missing drop" in refused.err
    out = tmp_path / "flags.parquet"
    dropped = run_coad(*arguments, "--missing", "drop", "--out", out)
    assert dropped.code == 0
    assert "1 row" in dropped.out
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(out)["flag"].to_pylist()[-1] is None


def test_import_and_help_are_light():
    code = (
        "import sys, coad; from coad.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'plotly', 'pandas', 'sklearn', 'numba', 'scipy', 'pyarrow'} & set(sys.modules)\n"
        "sys.stderr.write(repr(sorted(heavy)))"
    )
    run = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60)
    assert run.stderr == "[]"
    assert "thresholds" in run.stdout
