"""``coad bench --methods``: resumable, honest about failures, and useful without labels."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from makers import event_rows, rows_around_axes
from typer.testing import CliRunner

from coad.__main__ import app
from coad.data.pairs import Pairs
from coad.exceptions import FileError, InputError
from coad.research.baselines import registry
from coad.research.experiments import peers
from coad.research.experiments.peer_data import BenchData, bench_data
from coad.research.experiments.peer_results import PeersRun, Result, read_results, summary
from coad.research.experiments.peer_table import to_markdown, verdict
from coad.research.experiments.peers import run_peers


def toy(labelled: bool = True, n: int = 400) -> BenchData:
    s, q, label = event_rows(n, (3,), rate=0.15, shift=(3, 3))
    pairs = Pairs(s.astype(np.float32), q.astype(np.float32), label=label if labelled else None)

    def split(number, seed):
        return pairs.split(0.3, random_state=np.random.default_rng([seed, number]))

    return BenchData("toy", "planted", split, labelled=labelled, setting={"epochs": 30, "n_starts": 1})


def test_a_run_that_stopped_goes_on_and_a_changed_setting_starts_anew(tmp_path, monkeypatch):
    store = tmp_path / "r.parquet"
    calls: list[str] = []
    real = peers._judge

    def counted(data, method, *rest):
        calls.append(method.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(data, method, *rest)

    monkeypatch.setattr(peers, "_judge", counted)
    with pytest.raises(KeyboardInterrupt):
        run_peers([toy()], ["iforest", "gmm"], splits=2, quick=True, store=store)
    assert len({(r.method, r.split) for r in read_results(store)}) == 2
    run = run_peers([toy()], ["iforest", "gmm"], splits=2, quick=True, store=store)
    assert len(calls) == 5  # two before, the one that was interrupted, and the two that were left
    assert len({(r.method, r.split) for r in run.results}) == 4
    again = run_peers([toy()], ["iforest", "gmm"], splits=2, quick=True, store=store)
    assert len(calls) == 5
    assert again.results == run.results
    run_peers([toy()], ["gmm"], splits=1, quick=True, random_state=1, store=store)
    assert len(calls) == 6


def test_a_method_that_fails_leaves_a_row_and_the_others_run(tmp_path, monkeypatch):
    def broken(seed, quick, setting):
        raise RuntimeError("no such kernel\nand a long story")

    bad = dataclasses.replace(registry.METHODS["lof"], make=broken)
    monkeypatch.setitem(registry.METHODS, "lof", bad)
    store = tmp_path / "r.parquet"
    run = run_peers([toy()], ["lof", "gmm"], splits=1, quick=True, store=store)
    (error,) = run.errors
    assert error.error == "RuntimeError: no such kernel"
    lines = {line.method: line for line in run.lines()}
    assert lines["gmm"].best is not None
    assert lines["lof"].best is None
    assert "no such kernel" in to_markdown(run.lines())
    monkeypatch.undo()
    healed = run_peers([toy()], ["lof", "gmm"], splits=1, quick=True, store=store)
    assert not healed.errors  # a failed fit is tried again
    assert {r.error for r in read_results(store)} == {""}


def test_data_without_labels_run_with_empty_columns():
    run = run_peers([toy(labelled=False)], ["coad", "iforest", "snn"], splits=1, quick=True)
    lines = {line.method: line for line in run.lines()}
    for name in ("coad", "iforest"):
        line = lines[name]
        assert (line.own, line.ours, line.best, line.average_precision, line.error) == (None,) * 4 + ("",)
        assert line.seconds > 0
    assert "the data have none" in lines["snn"].error


def test_the_better_strategy_is_the_one_that_is_named():
    rows = [
        Result("k", "d", "vae", strategy, split, None, ours, best, 0.5, 1.0)
        for split in range(2)
        for strategy, ours, best in (("Score & Stack", 0.4, 0.6), ("Stack & Score", None, 0.7 + 0.1 * split))
    ]
    (line,) = summary(rows)
    assert line.strategy == "Stack & Score"
    assert line.best == pytest.approx((0.75, np.std([0.7, 0.8], ddof=1)))
    assert line.ours == pytest.approx((0.4, 0.0))  # only two scores have a pair of thresholds
    assert line.own is None


def test_coad_finds_planted_coincidence_above_its_peers_own_thresholds():
    run = run_peers([toy()], ["coad", "iforest"], splits=1, quick=True)
    lines = {line.method: line for line in run.lines()}
    assert lines["coad"].own[0] > 0.85
    assert lines["coad"].own[0] > lines["iforest"].own[0]


@pytest.mark.slow
def test_the_catalogue_of_modes_is_a_method_that_finds_a_rare_kind_among_regimes():
    s, q, kind = rows_around_axes((800, 600, 500, 80))
    pairs = Pairs(s, q, label=kind == 3)

    def split(number, seed):
        return pairs.split(0.3, random_state=np.random.default_rng([seed, number]))

    run = run_peers([BenchData("regimes", "planted", split)], ["modes", "gmm"], splits=1, quick=True)
    assert not run.errors
    line = {line.method: line for line in run.lines()}["modes"]
    assert line.own[0] > 0.9
    assert line.best[0] >= line.own[0]
    assert line.ours is None  # one score: there is no pair of thresholds to set


def test_the_verdict_names_the_best_peer_with_labels_and_without():
    def row(method, own, ours, best):
        return Result("k", "toy", method, "", 0, own=own, ours=ours, best=best)

    results = [row("coad", 0.9, 0.9, 0.95), row("dcca", None, 0.4, 0.92), row("gmm", 0.3, 0.6, 0.7)]
    results.append(row("modes", 0.99, None, 0.99))  # ours, so no peer
    said = verdict(PeersRun(results, {"toy": "planted"}))
    gmm, dcca = (registry.METHODS[name].title for name in ("gmm", "dcca"))
    assert (
        f"CoAD F1 0.900 without labels, above the best unsupervised peer without labels ({gmm}, 0.600)"
        in said
    )
    assert f"NOT above the best unsupervised peer at its best threshold ({dcca}, 0.920)" in said
    assert "coincident modes 0.990" in said
    assert "nothing to rank" in verdict(PeersRun(results[1:], {"toy": "planted"}))


def test_another_file_in_the_place_of_results_is_refused(tmp_path):
    store = tmp_path / "r.parquet"
    store.write_text("hello")
    with pytest.raises(FileError, match="does not hold results"):
        run_peers([toy()], ["gmm"], splits=1, store=store)
    assert store.read_text() == "hello"


def test_named_data_sets_split_without_sharing_rows_and_unknown_ones_are_refused():
    data = bench_data("digits", quick=True)
    train, test = data.split(0, 0)
    assert train.label.dtype == bool
    assert 0.1 < train.label.mean() < 0.2
    assert len(test) < len(train)
    other, _ = data.split(1, 0)
    assert not np.array_equal(train.s, other.s)
    with pytest.raises(InputError, match="rf, milling, digits"):
        bench_data("mnist")


def test_the_command_benches_a_file_and_its_exit_code_tells_of_failures(tmp_path):
    data = toy(n=300)
    train, test = data.split(0, 0)
    both = {name: np.concatenate([getattr(train, name), getattr(test, name)]) for name in ("s", "q", "label")}
    np.savez(tmp_path / "own.npz", s=both["s"], q=both["q"], label=both["label"].astype(np.int64))
    page = tmp_path / "b.html"
    base = ["bench", "--data", str(tmp_path / "own.npz"), "--label", "label", "--splits", "1", "--quick"]
    done = CliRunner().invoke(app, [*base, "--methods", "iforest,gmm", "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert "Isolation forest" in done.output
    assert "Isolation forest" in page.with_suffix(".md").read_text(encoding="utf-8")
    assert page.stat().st_size > 10_000
    assert len(read_results(page.with_suffix(".parquet"))) == 4  # two methods, two strategies
    # The expert rule knows RF windows only: its row says so, the rest runs.
    failed = CliRunner().invoke(app, [*base, "--methods", "expert,gmm", "--out", str(page)])
    assert failed.exit_code == 1
    assert "Expert rule failed" in failed.output
    wrong = CliRunner().invoke(app, [*base, "--methods", "isoforest", "--out", str(page)])
    assert isinstance(wrong.exception, InputError)
    assert "iforest" in str(wrong.exception)


@pytest.mark.slow
def test_the_rf_table_prints_the_papers_numbers_and_says_that_data_are_simulated(tmp_path):
    page = tmp_path / "rf.html"
    done = CliRunner().invoke(
        app, ["reproduce", "rf", "--quick", "--splits", "1", "--methods", "ocsvm,expert", "--out", str(page)]
    )
    assert done.exit_code == 0, done.output
    assert "simulated" in done.output
    lines = {line.split("  ")[0].strip(): line for line in done.output.splitlines()}
    assert lines["OCSVM"].rstrip().endswith("0.66")
    assert lines["Expert rule *"].rstrip().endswith("0.90")
    text = page.read_text(encoding="utf-8")
    assert "normal: glitch and early" in text
    assert "event: trip" in text


def test_a_beta_that_peers_do_not_have_is_refused(tmp_path):
    asked = ["reproduce", "milling", "--peers", "--beta", "2", "--out", str(tmp_path / "page.html")]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code != 0
    assert "leave --beta out" in f"{result.output} {result.exception}"


def planted_file(path, seed=0, n=400):
    rng = np.random.default_rng(seed)
    event = rng.random(n) < 0.15
    columns = rng.normal(size=(n, 4)) + 3 * event[:, None]
    rows = np.column_stack([columns, event, np.arange(n) % 3, np.arange(n) * 8 // n])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,y,reg,day", comments="", fmt="%.6g")
    return rows


@pytest.mark.parametrize("change", [["--context", "reg"], ["--group", "day"], "labels", "a middle row"])
def test_results_are_used_again_only_for_the_same_data(tmp_path, change):
    path = tmp_path / "x.csv"
    rows = planted_file(path)
    arguments = ["bench", "--data", str(path), "--methods", "lof", "--quick", "--s", "a,b", "--q", "c,d"]
    arguments += ["--label", "y", "--out", str(tmp_path / "o.html")]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert "split 1 of 1" not in CliRunner().invoke(app, arguments).output
    if isinstance(change, str):
        if change == "labels":
            rows[:, 4] = np.roll(rows[:, 4], 1)
        else:
            rows[201, 0] += 1
        np.savetxt(path, rows, delimiter=",", header="a,b,c,d,y,reg,day", comments="", fmt="%.6g")
        again = CliRunner().invoke(app, arguments)
    else:
        again = CliRunner().invoke(app, [*arguments, *change])
    assert again.exit_code == 0, again.output
    assert "split 1 of 1" in again.output


def test_files_with_gaps_labels_of_one_value_and_pages_of_another_kind_are_answered(tmp_path):
    path = tmp_path / "x.csv"
    rows = planted_file(path)
    rows[3, 0] = np.nan
    rows[:, 6] = 1
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,y,reg,one", comments="", fmt="%.6g")
    arguments = ["bench", "--data", str(path), "--methods", "lof", "--quick", "--s", "a,b", "--q", "c,d"]
    page = ["--out", str(tmp_path / "o.html")]
    run = CliRunner().invoke
    assert "--missing drop" in str(run(app, [*arguments, *page]).exception)
    assert run(app, [*arguments, *page, "--missing", "drop"]).exit_code == 0
    one = run(app, [*arguments, *page, "--missing", "drop", "--label", "one"])
    assert "nothing can be evaluated" in str(one.exception)
    store = run(app, [*arguments, "--missing", "drop", "--out", str(tmp_path / "o.parquet")])
    assert "must end in .html" in str(store.exception)


def test_without_labels_the_table_says_how_much_each_method_flags(tmp_path):
    path = tmp_path / "x.csv"
    planted_file(path)
    arguments = ["bench", "--data", str(path), "--methods", "lof,gmm", "--quick", "--s", "a,b", "--q", "c,d"]
    found = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "o.html")])
    assert found.exit_code == 0, found.output
    assert "flagged" in found.output
    assert "best F1" not in found.output
    assert "| flagged |" in (tmp_path / "o.md").read_text(encoding="utf-8")


def test_where_most_rows_are_anomalous_labels_may_choose_to_flag_what_is_off_in_either_input():
    from coad.research.baselines.strategies import judge_pair

    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 600)  # healthy, off in s, off in q
    s, q = 4.0 * (kind == 1) + rng.normal(size=600), 4.0 * (kind == 2) + rng.normal(size=600)
    both, either = (
        judge_pair((s, q), (s, q), kind > 0, own=None, either=rule).best for rule in (False, True)
    )
    assert both == pytest.approx(0.8, abs=0.02)  # no better than to flag all
    assert either > 0.93
