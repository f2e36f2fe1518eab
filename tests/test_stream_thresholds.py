"""Thresholds from rows read in passes: the same answer as in memory, whatever the batches and the limit."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from makers import correlated_noise

from coad import select_thresholds
from coad.core.inference import BOTH_WAYS, coincidence_after_shift, main_episodes, share_kept
from coad.core.search import PairSearch, search_rule, stratum_kinds
from coad.core.verdict import in_words
from coad.exceptions import InputError
from coad.thresholds import out_of_core, row_parts
from coad.thresholds.moved_rows import at_pair, moments_of, moved_cells
from coad.thresholds.out_of_core import stream_thresholds
from coad.thresholds.out_of_core_search import StreamSearch
from coad.thresholds.passes import Passes
from coad.thresholds.row_parts import Part, ReadRules, sketch
from coad.thresholds.strip_rows import StripRows


def batched(s, q, size, context=None):
    def batches():
        for start in range(0, len(s), size):
            part = slice(start, start + size)
            yield s[part], q[part], None if context is None else [column[part] for column in context]

    return batches


def made(kind, n, seed):
    rng = np.random.default_rng(seed)
    s, q = rng.standard_normal((2, n))
    event = rng.random(n) < 0.05
    s, q = s + 3 * event, q + 2.5 * event
    if kind == "ties":
        s, q = np.round(s), np.round(2 * q) / 2
    elif kind == "one tied":
        s = np.round(s / 2)
    elif kind == "mostly constant":
        s = np.where(s > 1, s, 0.0)
    elif kind == "noise":
        s, q = rng.random((2, n))
    elif kind == "same":
        q = s.copy()
    elif kind == "opposed":
        q = -s
    elif kind == "huge range":
        s, q = np.exp(50 * s), -np.exp(-50 * q)
    return s, q


def searches(
    s, q, size, max_rows, code=None, expected=(1.0, None), parts=1, sample=40, edges=12, correlation=0.0
):
    """The search in memory, and the one in passes with a coarse table, so that there is something left to search."""
    context = None if code is None else [code]
    whole = [
        Part(batched(s[a:b], q[a:b], size, None if code is None else [code[a:b]]), int(a))
        for a, b in zip(
            *(np.linspace(0, len(s), parts + 1).astype(int)[i : parts + i] for i in (0, 1)), strict=True
        )
    ]
    passes = Passes(whole, ReadRules())
    known = passes.sum(sketch, sample).sorted()
    if context is not None:
        passes.rules = ReadRules(strata={label: place for place, label in enumerate(known.sizes)})
    beta, alpha = expected
    stream = StreamSearch(
        passes, known, beta=beta, alpha=alpha, correlation=correlation, max_rows=max_rows, edges=edges
    )
    return PairSearch(s, q, code), stream


@pytest.fixture
def few_held(monkeypatch):
    """Tables of a few thousand rows take the way of long ones."""
    monkeypatch.setattr(out_of_core, "SAMPLE", 500)
    for module in ("out_of_core", "selection"):
        monkeypatch.setattr(f"coad.thresholds.{module}.MANY_ROWS", 400)


KINDS = ["plain", "ties", "one tied", "mostly constant", "noise", "same", "opposed", "huge range"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strata", [1, 3])
def test_the_search_in_passes_finds_the_exact_optimum(kind, strata):
    for seed in range(6):
        n = (50, 333, 2000)[seed % 3]
        s, q = made(kind, n, seed)
        code = None if strata == 1 else np.random.default_rng(seed).integers(0, strata, n)
        for beta in (0.0, 0.05, 1.0, math.inf):
            for alpha in (0.01, 0.2) if beta < math.inf else (1.0,):
                size, held = (7, 64, 1000)[seed % 3], (20, 100)[seed % 2]
                memory, stream = searches(s, q, size, held, code, (beta, alpha))
                exact = memory.maximise(beta=beta, alpha=alpha)
                found = stream.maximise(beta=beta, alpha=alpha, correlation=0.0)
                assert found.fbeta_hat == exact.fbeta_hat
                assert found.joint == exact.joint
                assert (exact.joint > 0) == (kind != "opposed")
                if exact.joint:
                    joint = (s >= found.threshold_s) & (q >= found.threshold_q)
                    assert joint.sum() == found.joint
                    assert found.threshold_s in s
                    assert found.threshold_q in q


def test_strata_of_a_single_row_count_as_in_memory():
    s, q = made("plain", 400, 3)
    code = np.where(np.arange(400) < 20, np.arange(400), 20 + np.arange(400) % 2)
    for beta in (0.0, 1.0, math.inf):
        memory, stream = searches(s, q, 50, 60, code, (beta, 0.05))
        exact, found = (
            memory.maximise(beta=beta, alpha=0.05),
            stream.maximise(beta=beta, alpha=0.05, correlation=0.0),
        )
        assert (found.fbeta_hat, found.joint) == (exact.fbeta_hat, exact.joint)


def rough(values, rng):
    """The same scores with ties, gaps, constants or a huge range."""
    shapes = (
        np.copy,
        np.round,
        lambda x: np.round(4 * x) / 4,
        lambda x: np.where(x > 1, x, 0.0),
        lambda x: np.minimum(x, 1.0),
        lambda x: np.exp(60 * x),
        np.zeros_like,
    )
    return shapes[rng.choice(7, p=[0.3, 0.15, 0.15, 0.15, 0.1, 0.1, 0.05])](values)


@pytest.mark.parametrize("seed", range(300))
def test_random_tables_have_the_optimum_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 26)) if seed % 3 else int(rng.integers(200, 1500))
    event = rng.random(n) < 0.15
    s, q = (rough(rng.standard_normal(n) + 2 * event, rng) for _ in range(2))
    code = None
    if seed % 2:
        code = np.unique(rng.integers(0, 4, n), return_inverse=True)[1]
    size = int(rng.choice([1, 7, n])) if n < 100 else int(rng.choice([100, n]))
    beta_asked = (0.0, 0.1, 1.0, 10.0, math.inf)[seed % 5]
    given = (0.05, 0.2, None)[seed // 5 % 3]
    rho = (0.0, 0.4)[seed % 2]
    memory, stream = searches(
        s,
        q,
        size,
        int(rng.choice([1, 5, 30, 200, 10**6])),
        code,
        (beta_asked, given),
        parts=int(rng.integers(1, 4)),
        sample=int(rng.choice([10, 100, 10**4])),
        edges=int(rng.choice([4, 12, 100])),
        correlation=rho,
    )
    richest = stream.maximise(beta=math.inf, alpha=1.0, correlation=rho)
    alpha_asked = given or max(richest.fbeta_hat, 0.01)
    for beta, alpha in [(math.inf, 1.0), (beta_asked, alpha_asked)]:
        found = stream.maximise(beta=beta, alpha=alpha, correlation=rho)
        exact = memory.maximise(beta=beta, alpha=alpha, correlation=rho)
        assert (found.joint, found.fbeta_hat) == (exact.joint, exact.fbeta_hat)
        if found.joint:
            flags = s >= found.threshold_s, q >= found.threshold_q
            assert np.sum(flags[0] & flags[1]) == found.joint
            assert max(np.mean(flags[0]), np.mean(flags[1])) <= 0.5
            if rho == 0:
                value = naive.fbeta(*flags, beta=beta, alpha=alpha, context=code)
                assert value == pytest.approx(found.fbeta_hat)
        if n < 100 and rho == 0:
            best = naive.best_thresholds(s, q, beta=beta, alpha=alpha, context=code)
            assert (best is None) == (found.joint == 0)
            if best is not None:
                assert found.fbeta_hat == pytest.approx(best[0], rel=1e-12, abs=1e-12)
    if found.joint and richest.joint:
        home = np.zeros(n, np.int32) if code is None else code.astype(np.int32)
        whole = at_pair(0, s, q, home, len(stream.raw_sizes), found.pair, richest.pair)
        kinds, _ = stream.flags(found, richest)
        np.testing.assert_array_equal(kinds.sum(0), whole.kinds.sum(0))


@pytest.mark.parametrize("strata", [1, 3])
def test_no_pair_in_a_box_exceeds_its_bound(strata):
    from coad.thresholds.count_table import CountTable, Nodes

    for seed in range(8):
        rng = np.random.default_rng(seed)
        s, q = made(("plain", "ties")[seed % 2], 60, seed)
        code = rng.integers(0, strata, 60)
        code[:strata] = np.arange(strata)
        edges = [np.append(np.sort(rng.choice(score, 3))[::-1], score.min()) for score in (s, q)]
        edges = [np.unique(one)[::-1] for one in edges]
        table = CountTable.empty(*edges, strata)
        table.add(s, q, code.astype(np.int32))
        nodes = Nodes(table, 30)
        search = PairSearch(s, q, None if strata == 1 else code)
        for beta in (0.0, 1.0, math.inf):
            rule = search_rule(search.sizes, stratum_kinds(search.sizes, False), beta=beta, alpha=0.1)
            bounds = nodes.bounds(nodes.usable, rule, np.array([-np.inf, 0, 0, 0]))
            for t_s in np.unique(s):
                for t_q in np.unique(q):
                    flags = s >= t_s, q >= t_q
                    box = tuple(int(np.argmax(one <= t)) for one, t in zip(edges, (t_s, t_q), strict=True))
                    if max(np.mean(flags[0]), np.mean(flags[1])) > 0.5 or not np.any(flags[0] & flags[1]):
                        continue
                    single = not (nodes.s.several[box[0]] or nodes.q.several[box[1]])
                    value = naive.fbeta(*flags, beta=beta, alpha=0.1, context=code if strata > 1 else None)
                    assert single or value <= bounds[box] + 1e-12


def test_tables_of_parts_of_the_rows_add_up():
    from coad.thresholds.count_table import CountTable

    s, q = made("ties", 500, 0)
    code = (np.arange(500) % 3).astype(np.int32)
    edges = np.array([3.0, 1.5, 0.0, -10.0])
    whole, first, second = (CountTable.empty(edges, edges[1:], 3) for _ in range(3))
    whole.add(s, q, code)
    first.add(s[:123], q[:123], code[:123])
    second.add(s[123:], q[123:], code[123:])
    merged = first + second
    for name in ("counts", "range_s", "range_q"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
    with pytest.raises(ValueError, match="same edges"):
        first + CountTable.empty(edges, edges, 3)


def test_three_passes_are_enough(few_held):
    passes = 0
    s, q = made("plain", 20_000, 0)

    def batches():
        nonlocal passes
        passes += 1
        yield from batched(s, q, 3000)()

    stream_thresholds(batches, n_permutations=19, background="independent")
    assert passes == 3
    found = stream_thresholds(batches, n_permutations=19)
    assert (passes, found.status) == (6, "found")
    s[:] = s[np.random.default_rng(0).permutation(len(s))]
    assert stream_thresholds(batches, n_permutations=19).status == "no coincidence"
    assert passes == 8, "what is noise by the table needs no third pass"


def test_a_tiny_limit_takes_more_passes():
    s, q = made("plain", 3000, 0)
    _, stream = searches(s, q, size=500, max_rows=30)
    stream.maximise(beta=math.inf, alpha=1.0, correlation=0.0)
    assert stream.passes.count > 3


@pytest.mark.parametrize("alpha", ["auto", 0.05])
@pytest.mark.parametrize("with_context", [False, True])
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("plain", "found"),
        ("ties", "found"),
        ("noise", "no coincidence"),
        ("same", "shared regime suspected"),
    ],
)
def test_the_result_is_that_of_the_search_in_memory(kind, status, with_context, alpha, few_held):
    n = 2500
    s, q = made(kind, n, 1)
    context = None
    if with_context:
        context = np.array(["a", "b", "c"])[np.random.default_rng(5).integers(0, 3, n)]
    exact = select_thresholds(s, q, alpha=alpha, context=context, n_permutations=39)
    found = stream_thresholds(
        batched(s, q, 300, None if context is None else [context]),
        alpha=alpha,
        n_permutations=39,
        max_rows=200,
    )
    assert found.status == exact.status == status
    assert (found.n_rows, found.n_strata, found.n_joint) == (n, exact.n_strata, exact.n_joint)
    assert found.alpha == pytest.approx(exact.alpha, rel=1e-12)
    if status != "no coincidence":
        assert found.candidate.fbeta_hat == pytest.approx(exact.candidate.fbeta_hat, rel=1e-12)
        assert found.candidate.n_joint == exact.candidate.n_joint
    if status == "found":
        assert (found.threshold_s, found.threshold_q) == (exact.threshold_s, exact.threshold_q)
        assert found.p_value == exact.p_value
        np.testing.assert_allclose(found.interval, exact.interval, atol=0.06)
        np.testing.assert_array_equal(found.predict(s, q), exact.predict(s, q))


def test_inputs_that_drift_together_are_told_in_a_stream_too(few_held):
    rng = np.random.default_rng(0)
    drift = np.repeat(rng.standard_normal(60), 50)
    s, q = (drift + 0.3 * rng.standard_normal(3000) for _ in range(2))
    found, exact = (
        stream_thresholds(batched(s, q, 700), n_permutations=39, max_rows=500, background="independent"),
        select_thresholds(s, q, n_permutations=39, background="independent"),
    )
    assert found.status == exact.status == "shared regime suspected"
    assert in_words(found.suspicions) == in_words(exact.suspicions)


def test_the_correlation_of_a_long_table_is_that_of_the_same_sample_as_in_memory(few_held):
    s, q = correlated_noise(30_000, 0.4, 0)
    found = stream_thresholds(batched(s, q, 700), n_permutations=39, max_rows=2000)
    exact = select_thresholds(s, q, n_permutations=39)
    assert found.status == exact.status == "no coincidence"
    assert found.background == exact.background
    assert found.background.rho == pytest.approx(0.4, abs=0.2)


def test_the_result_is_the_same_for_any_parts_and_batches(monkeypatch, few_held):
    monkeypatch.setattr(row_parts, "BLOCK_ROWS", 500)
    monkeypatch.setattr("coad.thresholds.passes.BLOCK_ROWS", 500)
    s, q = made("plain", 5000, 3)
    run = np.array(["a", "b"])[np.arange(5000) // 300 % 2]
    s[77] = np.nan
    found = [
        stream_thresholds(
            [Part(batched(s[a:b], q[a:b], size, [run[a:b]]), a) for a, b in parts],
            n_permutations=39,
            missing="drop",
            background="independent",
        )
        for size, parts in (
            (1, [(0, 5000)]),
            (800, [(0, 5000)]),
            (333, [(0, 1500), (1500, 2000), (2000, 5000)]),
        )
    ]
    assert found[0].status == "found"
    assert found[0].to_dict() == found[1].to_dict() == found[2].to_dict()


def test_moving_one_input_counts_the_same_as_in_memory():
    s, q = made("plain", 1000, 2)
    code = np.sort(np.random.default_rng(2).integers(0, 3, 1000))[::-1].astype(np.int32)
    pair = float(np.quantile(s, 0.9)), float(np.quantile(q, 0.9))
    shown = at_pair(0, s, q, code, 3, pair, pair)
    kept = share_kept(moments_of(shown.kinds), (moments_of(shown.kinds, joint) for joint in shown.moved))
    assert len(shown.moved) == len(BOTH_WAYS)
    assert kept == pytest.approx(coincidence_after_shift(s >= pair[0], q >= pair[1], code), rel=1e-12)
    cell_s, cell_q = (np.digitize(x, [0.0, 1.0]).astype(np.uint8) for x in (s, q))
    tables = np.zeros((4, 3, 3), dtype=np.int64)
    moved_cells(cell_s, cell_q, code, 3, tables, np.random.default_rng(5))
    sizes = np.bincount(code)
    lags = np.random.default_rng(5).integers(0, sizes, size=(4, 3))
    for table, lag in zip(tables, lags, strict=True):
        expected = np.zeros((3, 3), int)
        for stratum in range(3):
            here = np.flatnonzero(code == stratum)
            np.add.at(expected, (cell_s[here], cell_q[np.roll(here, -lag[stratum])]), 1)
        np.testing.assert_array_equal(table, expected)


def test_episodes_are_counted_across_blocks():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        joint = (np.repeat(rng.random(40) < 0.2, 25) & (rng.random(1000) < 0.3)).astype(float)
        code = np.zeros(33, np.int32)
        shown = None
        for start in range(0, 1000, 33):
            part = joint[start : start + 33]
            block = at_pair(start, part, part, code[: len(part)], 1, (0.5, 0.5), (0.5, 0.5))
            shown = block if shown is None else shown + block
        assert shown.kinds[0, 12:].sum() == joint.sum()
        assert shown.few_episodes == (main_episodes(joint > 0) <= 3)


def test_missing_scores_are_refused_or_dropped():
    s, q = made("plain", 300, 0)
    s[123] = np.nan
    with pytest.raises(InputError, match=r"score_s has missing .* row 123"):
        stream_thresholds(batched(s, q, 50), max_rows=100)
    found = stream_thresholds(batched(s, q, 50), max_rows=100, missing="drop", n_permutations=19)
    assert found.n_rows == 299


@pytest.mark.parametrize("kind", ["both", "one"])
def test_a_score_with_one_value_has_a_named_outcome(kind, few_held):
    s, q = np.ones(2000), np.ones(2000)
    if kind == "one":
        q = np.random.default_rng(0).random(2000)
    exact = select_thresholds(s, q)
    found = stream_thresholds(batched(s, q, 30), max_rows=20)
    assert found.status == exact.status == "no coincidence"
    assert found.message == exact.message


def test_rows_that_change_between_passes_are_refused(few_held):
    sizes = iter([1000, 900, 900, 900, 900])

    def batches():
        rng = np.random.default_rng(0)
        yield (*rng.random((2, next(sizes))), None)

    with pytest.raises(InputError, match="changed"):
        stream_thresholds(batches, max_rows=10)


def test_a_context_with_gaps_is_refused_with_the_row():
    s, q = made("plain", 300, 0)
    context = np.zeros(300)
    context[210] = np.nan
    with pytest.raises(InputError, match="row 210"):
        stream_thresholds(batched(s, q, 40, [context]), max_rows=100)


def test_the_command_reads_a_long_table_in_passes_with_the_same_answer(tmp_path, capsys, few_held):
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    from coad.cli.thresholds import Missing, thresholds

    s, q = made("plain", 3000, 4)
    s[17] = np.nan
    path = tmp_path / "scores.parquet"
    run = np.array(["a", "b"])[np.arange(3000) % 2]
    pq.write_table(pa.table({"s": s, "q": q, "run": run}), path, row_group_size=400)
    found = []
    for max_rows in (10_000, 300):
        out = tmp_path / f"{max_rows}.parquet"
        thresholds(
            [path],
            "s",
            "q",
            context="run",
            n_permutations=39,
            missing=Missing.drop,
            output=out,
            as_json=True,
            max_rows=max_rows,
        )
        found.append((json.loads(capsys.readouterr().out), pq.read_table(out)))
    (exact, flags), (streamed, streamed_flags) = found
    assert streamed["passes"] > 2
    for name in ("threshold_s", "threshold_q", "n_joint", "n_rows", "status", "n_strata", "dropped_rows"):
        assert streamed[name] == exact[name], name
    assert streamed_flags.column("flag").to_pylist() == flags.column("flag").to_pylist()
    assert streamed_flags.column("flag").to_pylist()[17] is None
    assert streamed_flags.column_names == flags.column_names


def test_rows_that_are_never_joint_keep_one_score(monkeypatch):
    seen = []
    joined = StripRows.joined

    def counted(self, stratum):
        rows, *singles = joined(self, stratum)
        seen.append((len(rows[0]), sum(len(one.score) for one in singles)))
        return rows, *singles

    monkeypatch.setattr(StripRows, "joined", counted)
    monkeypatch.setattr("coad.thresholds.out_of_core.SAMPLE", 4000)
    rng = np.random.default_rng(8)
    s, q = rng.standard_normal((2, 60_000)).round(3)
    events = rng.random(60_000) < 0.02
    s[events] += 3
    q[events] += 3
    settings = {
        "n_permutations": 0,
        "background": "independent",
    }  # whose correlation would be that of the sample
    found = stream_thresholds(lambda: [(s, q, None)], **settings)
    exact = select_thresholds(s, q, **settings)
    assert (found.threshold_s, found.threshold_q) == (exact.threshold_s, exact.threshold_q)
    assert (found.alpha, found.fbeta_hat, found.n_joint) == (exact.alpha, exact.fbeta_hat, exact.n_joint)
    (whole, single) = seen[0]
    assert single > whole > 0
