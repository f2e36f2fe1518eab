"""``coad modes`` and its page, on a small simulated table."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from coad.cli import app
from coad.exceptions import InputError
from test_modes import simulated


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    s, q, _ = simulated(sizes=(400, 300, 40))
    path = tmp_path_factory.mktemp("modes") / "rows.csv"
    names = [f"s{i}" for i in range(4)] + [f"q{i}" for i in range(4)]
    np.savetxt(path, np.column_stack([s, q]), delimiter=",", header=",".join(names), comments="")
    return path


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
    for command in (
        ["report", str(model), str(table), "--out", str(tmp_path / "r.html")],
        ["explore", str(model), str(table)],
    ):
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, InputError)
        assert "catalogue of modes" in str(refused.exception)


def test_the_command_and_the_page_say_how_rows_were_looked_at(table, tmp_path):
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    path, page = tmp_path / "decades.csv", tmp_path / "page.html"
    names = table.read_text(encoding="utf-8").splitlines()[0]
    np.savetxt(path, np.exp(3 * rows), delimiter=",", header=names, comments="")
    arguments = ["--s", "s*", "--q", "q*", "--out", str(tmp_path / "model"), "--page", str(page)]
    found = CliRunner().invoke(app, ["modes", str(path), *arguments])
    assert found.exit_code == 0, found.output
    assert "looked at: s by logarithms in " in found.output
    assert "Looked at: s by logarithms in " in page.read_text(encoding="utf-8")


def test_fit_with_method_auto_chooses_modes_where_a_rare_mode_holds(table, tmp_path):
    found = CliRunner().invoke(
        app,
        [
            "fit",
            str(table),
            "--s",
            "s*",
            "--q",
            "q*",
            "--out",
            str(tmp_path / "m"),
            "--method",
            "auto",
            "--seeds",
            "2",
        ],
    )
    assert found.exit_code == 0, found.output
    assert "method: modes, because" in found.output
