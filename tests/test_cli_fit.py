"""``coad fit``, ``score`` and ``evaluate`` as a user meets them."""

import json
import os
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from makers import plant, write_parquet

pytest.importorskip("torch")

from coad.__main__ import main
from coad.report.model_settings import fit_command
from coad.workflows.model_folder import load_model

QUICK = ("--starts", 1, "--epochs", 25)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with plant.parquet and a model fitted on it."""
    folder = tmp_path_factory.mktemp("plant")
    write_parquet(folder / "plant.parquet", plant())
    with pytest.MonkeyPatch.context() as patch:
        arguments = [
            "coad",
            "fit",
            folder / "plant.parquet",
            *("--s", "motor_*", "--q", "vib_*", "--time", "t", "--context", "material,feed"),
            *("--beta", 1, "--out", folder / "model", *QUICK),
        ]
        patch.setattr(sys, "argv", list(map(str, arguments)))
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return folder


def test_fit_prints_the_lines_that_matter(run_coad, home, tmp_path):
    code, text, errors = run_coad(
        "fit",
        home / "plant.parquet",
        *("--s", "motor_*", "--q", "vib_*", "--time", "t", "--window", 4, "--stride", 2),
        *("--context", "material", "--out", tmp_path / "model", *QUICK),
    )
    assert code == 0, errors
    for words in (
        "1,200 rows",
        "windows of 4",
        "2 regimes; the smallest, material=",
        "α, anomaly rate",
        "F̂",
        "P̂",
        "R̂",
        "held-out",
        "events",
        "model: ",
    ):
        assert words in text, text
    layout = json.loads((tmp_path / "model" / "layout.json").read_text())["layout"]
    assert layout["s"] == ["motor_a", "motor_b"]
    assert (layout["window"], layout["stride"]) == (4, 2)
    assert "label" not in layout
    assert [one.name for one in tmp_path.iterdir()] == ["model"], "nothing temporary may stay"


def test_scores_go_back_to_their_rows_and_agree_with_the_model(run_coad, home, tmp_path):
    new = plant(300, seed=5)
    write_parquet(tmp_path / "new.parquet", new)
    code, text, errors = run_coad(
        "score", home / "model", tmp_path / "new.parquet", "--out", tmp_path / "s.parquet"
    )
    assert code == 0, errors
    assert "300 rows" in text
    table = pq.read_table(tmp_path / "s.parquet")
    assert table.column_names == ["row", "time", "p_s", "p_q", "score", "flag"]
    model, _ = load_model(home / "model")
    s = np.stack([new["motor_a"], new["motor_b"]], axis=1)
    q = np.stack([new["vib_x"], new["vib_y"]], axis=1)
    context = [f"material={m}, feed={f:g}" for m, f in zip(new["material"], new["feed"], strict=True)]
    p_s, p_q = model.confidences(s, q, context)
    np.testing.assert_allclose(table["p_s"].to_numpy(), p_s, atol=1e-6)
    np.testing.assert_allclose(table["score"].to_numpy(), p_s * p_q, atol=1e-6)
    assert table["flag"].to_pylist() == model.predict(s, q, context).tolist()
    assert table["row"].to_pylist() == list(range(300))
    np.testing.assert_array_equal(table["time"].to_numpy(), new["t"])


def test_evaluate_judges_without_labels_and_with_them(run_coad, home, tmp_path):
    write_parquet(tmp_path / "new.parquet", plant(800, seed=6))
    code, text, errors = run_coad("evaluate", home / "model", tmp_path / "new.parquet")
    assert code == 0, errors
    assert "found" in text
    assert "F̂" in text
    assert "label" not in text
    code, text, _ = run_coad("evaluate", home / "model", tmp_path / "new.parquet", "--label", "anomaly")
    assert code == 0
    line = next(line for line in text.splitlines() if line.startswith("by the labels"))
    assert float(line.split("F1 ")[1].split()[0]) > 0.7
    code, _, errors = run_coad("evaluate", home / "model", tmp_path / "new.parquet", "--label", "vib_x")
    assert code == 2
    assert "also an input" in errors


def test_contexts_not_seen_in_training_are_named_with_their_rule(run_coad, home, tmp_path):
    new = plant(200, seed=7)
    new["material"] = np.where(np.arange(200) < 50, 9, new["material"])
    write_parquet(tmp_path / "new.parquet", new)
    code, text, errors = run_coad(
        "score", home / "model", tmp_path / "new.parquet", "--out", tmp_path / "s.csv"
    )
    assert code == 0
    assert "50 rows are in contexts that training did not see" in text
    assert "did not see" not in errors, "said once, for all files together"
    assert "scaled by the statistics of all training rows" in text


def test_an_ensemble_is_kept_and_the_report_tells_how_to_fit_it_again(run_coad, home, tmp_path):
    code, _, errors = run_coad(
        "fit",
        home / "plant.parquet",
        *("--s", "motor_*", "--q", "vib_*", "--context", "material", "--out", tmp_path / "model"),
        *("--starts", 3, "--epochs", 40, "--ensemble"),
    )
    assert code == 0, errors
    model, recipe = load_model(tmp_path / "model")
    kept = sum(report.status == "ok" for report in model.starts_)
    assert model.fitted_[1.0].scorer_s.net.members == kept > 1
    assert fit_command(recipe, model).endswith("--seed 0 --ensemble")


def test_two_clocks_are_fitted_scored_and_evaluated(run_coad, tmp_path):
    columns = plant()
    write_parquet(tmp_path / "rf.parquet", {name: columns[name] for name in ("t", "motor_a", "motor_b")})
    late = {name: columns[name] for name in ("vib_x", "vib_y", "anomaly")} | {"t": columns["t"] + 0.02}
    write_parquet(tmp_path / "bpm.parquet", late)
    both = ("--s-file", tmp_path / "rf.parquet", "--q-file", tmp_path / "bpm.parquet")
    code, text, errors = run_coad(
        "fit",
        *both,
        *("--s", "motor_*", "--q", "vib_*", "--time", "t", "--align", "nearest", "--tolerance", "50ms"),
        *("--out", tmp_path / "model", *QUICK),
    )
    assert code == 0, errors
    assert "1,200 rows of s and 1,200 of q" in text
    code, _, errors = run_coad("score", tmp_path / "model", *both, "--out", tmp_path / "s.parquet")
    assert code == 0, errors
    assert pq.read_table(tmp_path / "s.parquet").num_rows == 1200
    code, text, _ = run_coad("evaluate", tmp_path / "model", *both, "--label", "anomaly")
    assert code == 0
    assert "by the labels" in text
    code, _, errors = run_coad(
        "score", tmp_path / "model", tmp_path / "rf.parquet", "--out", tmp_path / "s.parquet"
    )
    assert code == 2
    assert "--s-file and --q-file" in errors
    code, _, errors = run_coad(
        "fit",
        *both,
        *("--s", "motor_*", "--q", "vib_*", "--time", "t", "--tolerance", "1ms", "--out", tmp_path / "m"),
    )
    assert code == 2, "a tolerance that drops everything"
    assert "1ms" in errors
    assert not (tmp_path / "m").exists()


def test_training_from_disk_gives_the_same_model(run_coad, home, tmp_path):
    arguments = (home / "plant.parquet", "--s", "motor_*", "--q", "vib_*", *QUICK)
    for disk in ("never", "always"):
        code, text, errors = run_coad("fit", *arguments, "--out-of-core", disk, "--out", tmp_path / disk)
        assert code == 0, errors
        assert ("trained from disk" in text) == (disk == "always")
        code, _, _ = run_coad(
            "score", tmp_path / disk, home / "plant.parquet", "--out", tmp_path / f"{disk}.parquet"
        )
        assert code == 0
    a, b = (pq.read_table(tmp_path / f"{disk}.parquet")["score"].to_numpy() for disk in ("never", "always"))
    np.testing.assert_allclose(a, b, atol=1e-3)
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {"never", "always", "never.parquet", "always.parquet"}


def test_a_shared_regime_is_named_with_the_command_that_uses_it(run_coad, tmp_path):
    rng = np.random.default_rng(3)
    load = rng.integers(0, 8, 40).repeat(40)
    columns = {
        "motor_a": load + rng.normal(size=1600),
        "motor_b": load + rng.normal(size=1600),
        "vib_x": load + rng.normal(size=1600),
        "shift": rng.integers(0, 3, 1600),
        "load": load,
    }
    write_parquet(tmp_path / "plant.parquet", columns)
    arguments = ("fit", tmp_path / "plant.parquet", "--s", "motor_*", "--q", "vib_*", "--out", tmp_path / "m")
    code, text, errors = run_coad(*arguments, *QUICK)
    assert code == 0, errors
    assert text.count("shared regime suspected") == 1
    assert "'load' explains" in text
    assert "--context load" in text
    assert "'shift'" not in text
    # Labels are for judging: a column that is named as one is never proposed.
    code, text, _ = run_coad(*arguments, *QUICK, "--label", "load")
    assert code == 0
    assert "shared regime suspected" in text
    assert "'load'" not in text


def test_blocks_of_time_groups_and_means_are_kept_with_the_model(run_coad, tmp_path):
    columns = plant(600)
    columns["vib_y"][[5, 100]] = np.nan
    columns["cut"] = np.arange(600) // 30
    write_parquet(tmp_path / "plant.parquet", columns)
    code, text, errors = run_coad(
        *(
            "fit",
            tmp_path / "plant.parquet",
            "--s",
            "motor_*",
            "--q",
            "vib_*",
            "--time",
            "t",
            "--missing",
            "mean",
        ),
        *("--context-blocks", "20s", "--group", "cut", "--split", "group", "--out", tmp_path / "m", *QUICK),
    )
    assert code == 0, errors
    assert "3 regimes" in text
    _, recipe = load_model(tmp_path / "m")
    assert recipe.layout.context_blocks == "20s"
    assert recipe.means["vib_y"] == pytest.approx(np.nanmean(columns["vib_y"]))
    columns["t"] = columns["t"] + 1e4
    write_parquet(tmp_path / "later.parquet", columns)
    code, text, errors = run_coad(
        "score", tmp_path / "m", tmp_path / "later.parquet", "--out", tmp_path / "s.csv"
    )
    assert code == 0, errors
    assert "600 pairs" in text
    assert "did not see" not in text, "new blocks of time are always new"


@pytest.mark.parametrize("command", ["score", "evaluate", "report", "explore"])
def test_gaps_in_new_data_are_handled_as_asked(run_coad, home, tmp_path, monkeypatch, command):
    monkeypatch.setattr("coad.app.serve.serve", lambda explorer, *rest, **more: None)
    lines = [",".join(plant(3))]
    lines += [",".join(map(str, row)) for row in zip(*plant(300, seed=1).values(), strict=True)]
    for place in (7, 90):
        lines[place] = ",".join(
            ["Bad Input" if i == 1 else one for i, one in enumerate(lines[place].split(","))]
        )
    (tmp_path / "new.csv").write_text("\n".join(lines))
    out = {"score": ("--out", tmp_path / "s.csv"), "report": ("--out", tmp_path / "r.html")}.get(command, ())
    out = ("--no-browser", "--marks", tmp_path / "marks.sqlite") if command == "explore" else out
    arguments = (command, home / "model", tmp_path / "new.csv", *out)
    code, _, errors = run_coad(*arguments)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "'motor_a' has 2 missing values (first at row 6); pass --missing drop or --missing mean" in errors
    for policy in ("drop", "mean", "interpolate"):
        code, _, errors = run_coad(*arguments, "--missing", policy)
        assert code == 0, (policy, errors)


def test_auto_stands_for_all_other_numeric_columns(run_coad, tmp_path):
    columns = plant(600)
    columns |= {"count": np.arange(600), "worn": columns["vib_x"] > 1, "name": ["a"] * 600}
    columns["score"] = np.random.default_rng(0).normal(size=600)  # a label that looks like a signal
    write_parquet(tmp_path / "plant.parquet", columns)
    options = ("--time", "t", "--label", "score", "--out", tmp_path / "m", *QUICK)
    for named, line in (
        (("--s", "motor_*"), "q: vib_x, vib_y\n"),
        (("--q", "vib_*"), "s: motor_a, motor_b\n"),
    ):
        code, text, errors = run_coad("fit", tmp_path / "plant.parquet", *named, *options)
        assert code == 0, errors
        assert line in text


def test_columns_must_be_named_for_one_input(run_coad, home, tmp_path):
    code, _, errors = run_coad("fit", home / "plant.parquet", "--out", tmp_path / "m", *QUICK)
    assert code == 2
    assert "name the columns of at least one input" in errors
    assert "'motor_a'" in errors
    assert len(errors.strip().splitlines()) == 1
    everything = ("--s", "motor_*,vib_*", "--time", "t", "--out", tmp_path / "m")
    code, _, errors = run_coad("fit", home / "plant.parquet", *everything, *QUICK)
    assert code == 2
    assert "name its columns with --q" in errors


BAD_FIT = {
    "no column matches": (("--s", "moter_*", "--q", "vib_*"), "did you mean 'motor_*'"),
    "overlap": (("--s", "motor_*,vib_x", "--q", "vib_*"), "'vib_x' is in both s and q"),
    "no such context": (
        ("--s", "motor_*", "--q", "vib_*", "--context", "materiel"),
        "did you mean 'material'",
    ),
    "no such time": (("--s", "motor_*", "--q", "vib_*", "--time", "when"), "'when'"),
    "window too long": (("--s", "motor_*", "--q", "vib_*", "--window", "5000"), "window"),
    "window is no length": (("--s", "motor_*", "--q", "vib_*", "--window", "long"), "'long'"),
    "blocks without time": (("--s", "motor_*", "--q", "vib_*", "--context-blocks", "10min"), "time column"),
    "negative beta": (("--s", "motor_*", "--q", "vib_*", "--beta", "-1"), "beta"),
    "alpha is no number": (("--s", "motor_*", "--q", "vib_*", "--alpha", "many"), "--alpha"),
    "group split without group": (("--s", "motor_*", "--q", "vib_*", "--split", "group"), "--group"),
    "text as input": (("--s", "motor_*", "--q", "vib_*,name"), "'name'"),
    "mixed types": (("--s", "motor_*", "--q", "mixed"), "'mixed'"),
    "missing values": (("--s", "motor_*", "--q", "gaps"), "--missing"),
    "constant input": (("--s", "motor_*", "--q", "flat"), "constant"),
    "window without end": (
        ("--s", "motor_*", "--q", "vib_*", "--time", "t", "--window", "1e400s"),
        "292 years",
    ),
    "window of 20 digits": (("--s", "motor_*", "--q", "vib_*", "--window", "9" * 20), "at most"),
    "stride of 400 digits": (
        ("--s", "motor_*", "--q", "vib_*", "--window", 4, "--stride", "9" * 400),
        "at most",
    ),
    "gap without end": (
        ("--s", "motor_*", "--q", "vib_*", "--time", "t", "--max-gap", "1e400s", "--window", 4),
        "292",
    ),
    "times that stand still": (
        ("--s", "motor_*", "--q", "vib_*", "--time", "flat", "--window", "50ms"),
        "step is 0",
    ),
    "lists of words": (("--s", "motor_*", "--q", "words"), "lists that are not of numbers"),
    "lists as context": (("--s", "motor_*", "--q", "vib_*", "--context", "words"), "one value per row"),
    "a seed of 20 digits": (("--s", "motor_*", "--q", "vib_*", "--seed", 2**64), "random_state"),
}


@pytest.mark.parametrize("case", BAD_FIT)
def test_what_a_user_gets_wrong_is_one_line_and_no_model(run_coad, tmp_path, case):
    columns = plant(300)
    columns |= {
        "name": ["a"] * 300,
        "mixed": [str(value) for value in range(299)] + ["oops"],
        "gaps": [None if row % 50 == 7 else float(row) for row in range(300)],
        "flat": np.ones(300),
        "words": [["a", "b"]] * 300,
    }
    write_parquet(tmp_path / "plant.parquet", columns)
    arguments, words = BAD_FIT[case]
    code, text, errors = run_coad(
        "fit", tmp_path / "plant.parquet", *arguments, "--out", tmp_path / "m", *QUICK
    )
    assert code == 2, text
    assert words in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert {one.name for one in tmp_path.iterdir()} == {"plant.parquet"}


@pytest.mark.parametrize("length", [250, 300])
def test_a_name_that_is_too_long_is_refused_before_any_work(run_coad, home, tmp_path, length):
    name, table, model = tmp_path / ("x" * length), home / "plant.parquet", home / "model"
    for arguments in (
        ("fit", table, "--s", "motor_*", "--q", "vib_*", "--out", name),
        ("fit", tmp_path / ("x" * 300), "--s", "motor_*", "--q", "vib_*"),
        ("score", model, table, "--out", f"{name}.csv"),
        ("score", tmp_path / ("x" * 300), table),
        ("report", model, table, "--out", f"{name}.html"),
        ("thresholds", table, "--s", "motor_a", "--q", "vib_x", "--out", f"{name}.csv"),
    ):
        code, _, errors = run_coad(*arguments)
        assert (code, len(errors.splitlines())) == (2, 1), errors
        assert "too long" in errors


def test_a_table_without_rows_is_one_line(run_coad, home, tmp_path):
    path = tmp_path / "head.parquet"
    write_parquet(path, {name: values[:0] for name, values in plant(10).items()})
    inputs = ("--s", "motor_*", "--out", tmp_path / "m")
    for arguments in (
        ("fit", path, "--q", "vib_*", *inputs),
        ("fit", path, "--q", "auto", *inputs),
        ("fit", path, "--q", "vib_*", "--out-of-core", "always", *inputs),
        ("score", home / "model", path, "--out", tmp_path / "s.csv"),
        ("evaluate", home / "model", path),
        ("thresholds", path, "--s", "motor_a", "--q", "vib_x"),
    ):
        code, _, errors = run_coad(*arguments)
        assert (code, len(errors.splitlines())) == (2, 1), errors


@pytest.mark.parametrize("use", ["input", "context", "group", "nothing"])
@pytest.mark.parametrize("more", [(), ("--out-of-core", "always", "--window", 2)])
def test_a_column_may_be_called_file(run_coad, tmp_path, use, more):
    columns = plant(300)
    columns["file"] = np.repeat(np.arange(20.0), 15) + (
        np.random.default_rng(0).random(300) if use == "input" else 0
    )
    write_parquet(tmp_path / "plant.parquet", columns)
    named = ("--s", "motor_*,file" if use == "input" else "motor_*", "--q", "vib_*")
    named += (f"--{use}", "file") if use in ("context", "group") else ()
    code, text, errors = run_coad(
        "fit", tmp_path / "plant.parquet", *named, *more, "--out", tmp_path / "m", *QUICK
    )
    assert code == 0, errors
    assert use != "context" or "20 regimes" in text
    scores = ("--out", tmp_path / "s.csv")
    code, _, errors = run_coad("score", tmp_path / "m", tmp_path / "plant.parquet", *scores)
    assert code == 0, errors


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (lambda t: t[::-1], "sorted"),
        (lambda t: np.where(np.arange(len(t)) == 10, t[9], t), "repeats"),
        (lambda t: t + 1000.0 * (np.arange(len(t)) // 10), "window"),
    ],
    ids=["not sorted", "duplicates", "gaps everywhere"],
)
def test_bad_times_are_refused_for_windows(run_coad, tmp_path, times, words):
    columns = plant(300)
    columns["t"] = times(columns["t"])
    write_parquet(tmp_path / "plant.parquet", columns)
    options = (
        "--s",
        "motor_*",
        "--q",
        "vib_*",
        "--time",
        "t",
        "--window",
        "16",
        "--out",
        tmp_path / "m",
        *QUICK,
    )
    code, _, errors = run_coad("fit", tmp_path / "plant.parquet", *options)
    assert code == 2
    assert words in errors
    assert len(errors.strip().splitlines()) == 1


def test_a_folder_that_is_no_model_is_never_overwritten(run_coad, home, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    options = ("--s", "motor_*", "--q", "vib_*", *QUICK)
    code, _, errors = run_coad("fit", home / "plant.parquet", *options, "--out", tmp_path / "thesis")
    assert code == 2
    assert "is not a model folder" in errors
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_an_old_model_stays_if_the_new_one_fails(run_coad, home, tmp_path, monkeypatch):
    options = (home / "plant.parquet", "--s", "motor_*", "--q", "vib_*", "--out", tmp_path / "m", *QUICK)
    assert run_coad("fit", *options)[0] == 0
    before = {one.name: one.read_bytes() for one in (tmp_path / "m").iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("coad.data.atomic.os.fsync", full)
        code, _, errors = run_coad("fit", *options, "--seed", 1)
    assert code == 2
    assert "No space left" in errors
    assert {one.name: one.read_bytes() for one in (tmp_path / "m").iterdir()} == before
    assert [one.name for one in tmp_path.iterdir()] == ["m"]
    assert run_coad("fit", *options, "--seed", 1)[0] == 0
    assert (tmp_path / "m" / "model.json").read_bytes() != before["model.json"]


def test_one_source_or_two_must_be_named(run_coad, home):
    for arguments in (
        ("fit", "--s", "a", "--q", "b"),
        ("fit", home / "plant.parquet", "--s-file", home / "plant.parquet"),
        ("score", home / "model"),
    ):
        code, _, errors = run_coad(*arguments)
        assert code == 2
        assert "--s-file and --q-file" in errors
    code, _, errors = run_coad("score", home / "nothing", home / "plant.parquet")
    assert code == 2
    assert "coad fit" in errors
    code, _, errors = run_coad("evaluate", home / "model", home / "absent.parquet")
    assert code == 2
    assert "absent.parquet" in errors


def test_a_schema_that_differs_is_named(run_coad, home, tmp_path):
    new = plant(200)
    del new["vib_y"], new["feed"]
    write_parquet(tmp_path / "new.parquet", new)
    code, _, errors = run_coad(
        "score", home / "model", tmp_path / "new.parquet", "--out", tmp_path / "s.parquet"
    )
    assert code == 2
    assert "'vib_y', 'feed'" in errors
    new = plant(200)
    new["vib_y"] = ["loud"] * 200
    write_parquet(tmp_path / "new.parquet", new)
    code, _, errors = run_coad(
        "score", home / "model", tmp_path / "new.parquet", "--out", tmp_path / "s.parquet"
    )
    assert code == 2
    assert "'vib_y'" in errors
    assert "Traceback" not in errors
    assert [one.name for one in tmp_path.iterdir()] == ["new.parquet"]


def test_a_model_whose_layout_was_damaged_is_refused(run_coad, home, tmp_path):
    import shutil

    shutil.copytree(home / "model", tmp_path / "m")
    for text in ("{", '{"format": "coad layout", "layout": {"x": 1}}', "[]"):
        (tmp_path / "m" / "layout.json").write_text(text)
        code, _, errors = run_coad(
            "score", tmp_path / "m", home / "plant.parquet", "--out", tmp_path / "s.csv"
        )
        assert code == 2
        assert "layout.json" in errors
    (tmp_path / "m" / "layout.json").unlink()
    code, _, errors = run_coad("evaluate", tmp_path / "m", home / "plant.parquet")
    assert code == 2
    assert "layout.json" in errors


def test_nothing_but_the_result_is_printed_when_nobody_watches(run_coad, home, tmp_path, monkeypatch):
    monkeypatch.setattr("coad.learned.training.progress.AFTER_SECONDS", 0.0)
    code, text, errors = run_coad(
        "score", home / "model", home / "plant.parquet", "--out", tmp_path / "s.parquet"
    )
    assert code == 0
    assert errors == ""
    assert len(text.splitlines()) == 3


@pytest.mark.slow
def test_somebody_who_waits_sees_one_line_from_the_start_to_the_end(home, tmp_path):
    """In a terminal: a line before torch is loaded, which goes on through all stages."""
    import pty
    import subprocess

    terminal, theirs = pty.openpty()
    arguments = [
        *("fit", home / "plant.parquet", "--s", "motor_*", "--q", "vib_*", "--out", tmp_path / "model"),
        *("--starts", "2", "--epochs", "150"),
    ]
    command = [sys.executable, "-m", "coad", *map(str, arguments)]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(terminal, 65_536)
        except OSError:  # Linux says so when the other end is closed
            break
    os.close(terminal)
    assert child.wait(60) == 0
    text = seen.decode()
    places = [text.find(stage) for stage in ("fitting", "training", "testing against chance", "model:")]
    assert -1 < places[0] < places[1] < places[2] < places[3], text
    assert text.count("\x1b[?25l") == 1, "the cursor is hidden once: it is one line"


def test_a_line_is_shown_to_somebody_who_waits_and_stages_continue_it(monkeypatch, capsys):
    from coad.cli._progress import progress
    from coad.learned.training.progress import Progress

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("coad.cli._progress.on_terminal", lambda: True)
    for waits in (False, True):
        monkeypatch.setattr("coad.learned.training.progress.AFTER_SECONDS", 0.0 if waits else 60.0)
        said = ""

        def wait_for(words, waits=waits):
            nonlocal said
            end = time.monotonic() + 10
            while waits and words not in said and time.monotonic() < end:
                said += capsys.readouterr().err

        with progress("scoring", 100) as advance:
            advance(50)
            wait_for("50 rows")
            with Progress("training", 10, verbose=True) as bar:
                bar.advance(1, "one of ten")
                wait_for("one of ten")
        said += capsys.readouterr().err
        assert ("scoring" in said) == ("one of ten" in said) == waits
        assert said.count("\x1b[?25l") == waits, "the cursor is hidden once: it is one line"
