"""``coad modes`` and its page, on a small simulated table."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from makers import rows_around_axes
from typer.testing import CliRunner

import coad
from coad.__main__ import app
from coad.exceptions import InputError


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    s, q, _ = rows_around_axes((400, 300, 40))
    path = tmp_path_factory.mktemp("modes") / "rows.csv"
    names = [f"s{i}" for i in range(4)] + [f"q{i}" for i in range(4)]
    np.savetxt(path, np.column_stack([s, q]), delimiter=",", header=",".join(names), comments="")
    return path


def made(table, model, command="modes", *more):
    """A catalogue of the table, by two networks; what the command printed."""
    names = ["--s", "s*", "--q", "q*", "--starts", "2", "--out", str(model)]
    found = CliRunner().invoke(app, [command, str(table), *names, *more])
    assert found.exit_code == 0, found.output
    return found


@pytest.fixture(scope="module")
def catalogue(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogue") / "model"
    made(table, folder)
    return folder


@pytest.fixture
def model(catalogue, tmp_path):
    """The folder of a catalogue of the table, of the test's own."""
    return shutil.copytree(catalogue, tmp_path / "model")


def test_the_command_prints_the_catalogue_rarest_first_and_writes_a_page(table, tmp_path):
    page, model = tmp_path / "page.html", tmp_path / "model"
    found = CliRunner().invoke(
        app, ["modes", str(table), "--s", "s*", "--q", "q*", "--out", str(model), "--page", str(page)]
    )
    assert found.exit_code == 0, found.output
    assert "1 of them rare" in found.output
    lines = [line.split() for line in found.output.splitlines() if line.strip().startswith(("0", "1", "2"))]
    assert [line[1] for line in lines if len(line) > 6] == ["rare", "regime", "regime"]
    text = page.read_text(encoding="utf-8")
    assert "rare: " in text
    assert "plotly" in text
    scored = CliRunner().invoke(app, ["score", str(model), str(table), "--out", str(tmp_path / "scores.csv")])
    assert scored.exit_code == 0, scored.output
    judged = CliRunner().invoke(app, ["evaluate", str(model), str(table)])
    assert judged.exit_code == 0, judged.output
    assert "the same rows" in judged.output
    assert "(estimated)" in judged.output
    told = CliRunner().invoke(app, ["report", str(model), str(table), "--out", str(tmp_path / "r.html")])
    assert told.exit_code == 0, told.output
    assert "The rule of the model: rows of the rare modes" in (tmp_path / "r.html").read_text(
        encoding="utf-8"
    )
    refused = CliRunner().invoke(app, ["tune", str(model), str(table)])
    assert isinstance(refused.exception, InputError)
    assert "catalogue of modes" in str(refused.exception)


def test_the_page_names_the_regime_of_a_mode_with_its_column(table, tmp_path):
    rows = pd.read_csv(table)
    rows["load"] = np.arange(len(rows)) % 2
    rows.to_csv(tmp_path / "rows.csv", index=False)
    page = tmp_path / "page.html"
    made(tmp_path / "rows.csv", tmp_path / "model", "modes", "--context", "load", "--page", str(page))
    assert re.search(r"rows are in the regime load=[01], of all rows", page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_command_and_the_page_say_how_rows_were_transformed(table, tmp_path):
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    path, page = tmp_path / "decades.csv", tmp_path / "page.html"
    names = table.read_text(encoding="utf-8").splitlines()[0]
    np.savetxt(path, np.exp(3 * rows), delimiter=",", header=names, comments="")
    arguments = ["--s", "s*", "--q", "q*", "--out", str(tmp_path / "model"), "--page", str(page)]
    found = CliRunner().invoke(app, ["modes", str(path), *arguments])
    assert found.exit_code == 0, found.output
    assert "transformed: s to logarithms in " in found.output
    assert "Transformed: s to logarithms in " in page.read_text(encoding="utf-8")


def test_roles_set_by_hand_are_what_the_commands_use_and_files_are_still_read(table, model, tmp_path):
    scores = tmp_path / "scores.csv"
    run = CliRunner().invoke
    det = coad.load(model)
    regime = next(mode for mode in det.modes_ if mode.role == "regime")
    det.set_role(det.modes_.rare[0].mode, "ignore").set_role(regime.mode, "rare").save(model)
    assert "1 of them rare" in run(app, ["role", str(model)]).output
    assert run(app, ["score", str(model), str(table), "--out", str(scores)]).exit_code == 0
    rows = np.genfromtxt(scores, delimiter=",", names=True, dtype=None, encoding="utf-8")
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    said = det.score_rows(values[:, :4], values[:, 4:])
    np.testing.assert_array_equal(rows["mode"], said.mode)
    np.testing.assert_array_equal(rows["flag"], said.flag)
    np.testing.assert_allclose(rows["score"], said.score, atol=1e-6)
    np.testing.assert_array_equal(said.flag, said.mode == regime.mode)
    # Most of the rows are called rare now; a catalogue of regimes has nothing to suspect.
    judged = run(app, ["evaluate", str(model), str(table)])
    assert judged.exit_code == 0, judged.output
    assert "suspected" not in judged.output


def test_a_role_is_overruled_from_the_command_line(table, model, tmp_path):
    run = CliRunner().invoke
    rare = coad.load(model).modes_.rare[0].mode
    done = run(app, ["role", str(model), str(rare), "regime"])
    assert done.exit_code == 0, done.output
    assert "0 of them rare" in done.output
    assert f"mode {rare}: regime, set by hand" in done.output
    scored = run(app, ["score", str(model), str(table), "--out", str(tmp_path / "s.csv")])
    assert "0 flagged" in scored.output
    assert "regime, rare or ignore" in str(run(app, ["role", str(model), str(rare)]).exception)
    assert "there is no mode 99" in str(run(app, ["role", str(model), "99", "rare"]).exception)


def test_the_table_counts_the_rows_that_are_told_their_mode(table, model):
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    det = coad.load(model)
    told = det.predict_mode(values[:, :4], values[:, 4:])
    assert len(det.modes_) == 3
    assert {mode.mode: mode.rows for mode in det.modes_} == {
        mode.mode: int((told == mode.mode).sum()) for mode in det.modes_
    }


def test_a_model_of_files_knows_the_names_of_its_columns(table, model):
    frame = pd.read_csv(table)
    s, q = ([f"{side}{i}" for i in range(4)] for side in "sq")
    det = coad.load(model)
    assert len(det.predict(frame[s], frame[q])) == len(frame)
    with pytest.raises(InputError, match="column 0 of s is 's1'"):
        det.predict(frame[[s[1], s[0], *s[2:]]], frame[q])


def test_arrays_of_few_values_a_row_are_columns_and_of_many_a_signal(table, tmp_path):
    values = np.loadtxt(table, delimiter=",", skiprows=1)
    np.savez(tmp_path / "x.npz", s=values[:, :4], q=values[:, 4:])
    made = CliRunner().invoke(
        app, ["modes", str(tmp_path / "x.npz"), "--starts", "2", "--out", str(tmp_path / "m")]
    )
    assert made.exit_code == 0, made.output
    assert "s: s\nq: q\n" in made.output
    det = coad.load(tmp_path / "m")
    assert det.predict(values[:, :4], values[:, 4:]).sum() == pytest.approx(40, abs=2)
