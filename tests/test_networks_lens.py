"""Networks behind gates of oddness: the gate in a fit of ``CoAD``, and the lens that uses it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from makers import event_rows

from coad.core.oddness import Oddness
from coad.core.runs import RowOrder
from coad.exceptions import InputError
from coad.findings.candidates import FitRows, folds_of
from coad.findings.features import InputFeatures
from coad.findings.networks import NetworkLens, _inputs
from coad.learned.estimator import CoAD
from coad.learned.objective import CoincidenceLoss
from coad.learned.training.duo import Rows, StoredRows, confidences, fingerprint
from coad.learned.training.null import NullMaximum


def quick(**changes) -> CoAD:
    return CoAD(**{"n_starts": 2, "epochs": 20, "random_state": 0, **changes})


def fit_rows(s, q, *, max_rare=0.1, seed=0, ordered=False) -> FitRows:
    rng = np.random.default_rng(seed)
    s, q = (np.asarray(x, dtype=np.float32) for x in (s, q))
    features = [InputFeatures.fit(x)(x) for x in (s, q)]
    odd = [Oddness.fit(x, rare=max_rare, rng=rng)(x) for x in features]
    order = RowOrder(len(s))
    fold = folds_of(len(s), None, order, ordered, rng)
    return FitRows(s, q, None, *features, *odd, order, fold, ordered, max_rare, seed)


def regime_and_events(n=1500, seed=0):
    """(s, q, event): an operating point that 40 % of the rows share, rare odd events, and rows odd in one input only."""
    rng = np.random.default_rng(seed)
    s, q = rng.normal(size=(2, n, 4))
    regime = rng.random(n) < 0.4
    s[regime, 0] += 4
    q[regime, 0] -= 4
    kind = rng.choice(4, n, p=[0.85, 0.05, 0.05, 0.05])
    for x, own in ((s, (1, 2)), (q, (1, 3))):
        x[np.isin(kind, own), 1] += 9
    return s, q, kind == 1


def f1(found, label) -> float:
    return 2 * np.sum(found & label) / max(1, np.sum(found) + np.sum(label))


@pytest.fixture(scope="module")
def found():
    s, q, event = regime_and_events()
    data, lens = fit_rows(s, q), NetworkLens()
    return data, lens, lens.propose(data), event


@pytest.mark.parametrize("changes", [{}, {"micro_batch": 100, "ensemble": True}])
def test_a_gate_of_ones_changes_no_bit(changes):
    s, q, _ = event_rows()
    ones = np.ones(len(s))
    models = [quick(**changes).fit(s, q, gate=gate) for gate in (None, (ones, ones))]
    for a, b in zip(*(model.confidences(s, q) for model in models), strict=True):
        assert np.array_equal(a, b)
    assert models[0].alpha_ == models[1].alpha_
    assert models[0].rule_ == models[1].rule_
    assert models[0].history_ == models[1].history_


def test_a_gate_is_what_the_moments_are_multiplied_by_whole_or_in_parts():
    generator = torch.Generator().manual_seed(0)
    logit_s, logit_q = torch.randn(2, 60, generator=generator, dtype=torch.float64)
    gate = tuple(torch.rand(2, 60, generator=generator, dtype=torch.float64))
    loss = CoincidenceLoss(1.0, 0.1)
    moments = loss.moments(logit_s, logit_q, gate=gate)
    p_s, p_q = logit_s.sigmoid() * gate[0], logit_q.sigmoid() * gate[1]
    for value, expected in zip(
        (moments.sum_s, moments.sum_q, moments.sum_sq), (p_s, p_q, p_s * p_q), strict=True
    ):
        assert float(value) == pytest.approx(float(expected.sum()))
    gradients = []
    for parts in (1, 3):
        s, q = (x.clone().requires_grad_(True) for x in (logit_s, logit_q))
        if parts == 1:
            loss(s, q, None, gate).backward()
        else:
            for rows in torch.arange(60).chunk(parts):
                loss.partial(s[rows], q[rows], moments, None, (gate[0][rows], gate[1][rows])).backward()
        gradients.append((s.grad, q.grad))
    for whole, part in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, part)


def test_stored_rows_keep_the_gate_of_each_row_in_their_own_order():
    x = np.arange(6, dtype=np.float32)[:, None]
    gate = np.linspace(0, 1, 6), np.linspace(1, 0, 6)
    rows = StoredRows((x, x), (None, None), np.array([4, 1, 3]), None, None, gate)
    taken = rows.take(np.array([2, 0]))[0][:, 0].long().numpy()
    own = rows.conditions(np.array([2, 0]), torch.device("cpu"))[1]
    assert own is not None
    for one, given in zip(own, gate, strict=True):
        assert one.tolist() == given[taken].tolist()
    plain = StoredRows((x, x), (None, None), np.array([4, 1, 3]), None, None)
    assert fingerprint(rows) != fingerprint(plain), "a checkpoint must not be resumed with another gate"


def test_a_gate_moves_with_its_own_input_when_pairings_are_shuffled():
    s, q, _ = event_rows(200)
    model = quick(epochs=2).fit(s, q)
    own = model.fitted_[1.0]
    rng = np.random.default_rng(0)
    gate = tuple(torch.from_numpy((rng.random(200) < 0.5).astype(float)) for _ in range(2))

    class Both:
        def eval(self):
            return self

        device = torch.device("cpu")

        def __call__(self, s, q):
            return tuple(x.logit(y)[None, :, None] for x, y in ((own.scorer_s, s), (own.scorer_q, q)))

    scaled = [torch.from_numpy(x).float() for x in (s, q)]
    p_s, p_q = confidences(Both(), Rows(*scaled, gate=gate))
    assert (p_s[0, :, 0][gate[0] == 0] == 0).all()
    assert (p_q[0, :, 0][gate[1] == 0] == 0).all()
    null = NullMaximum(200, 3, 0, None, (1, 1), ordered=False)
    null.update(p_s.numpy(), p_q.numpy())
    for order, value in zip(null.order, null.maxima[:, 0, 0], strict=True):
        expected = np.corrcoef(p_s[0, :, 0].numpy(), p_q[0, order, 0].numpy())[0, 1]
        assert value == pytest.approx(expected, abs=1e-5)


def test_repeated_readings_drop_rows_together_with_their_gates():
    s, q, event = event_rows()
    gate = event.astype(float)
    once = quick().fit(s, q, gate=(gate, gate))
    with pytest.warns(UserWarning, match="repeat"):
        twice = quick().fit(*(x.repeat(2, axis=0) for x in (s, q)), gate=(gate.repeat(2), gate.repeat(2)))
    assert once.alpha_ == twice.alpha_
    for a, b in zip(once.confidences(s, q), twice.confidences(s, q), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ((np.ones(599), np.ones(600)), "the gate of s has shape"),
        ((np.ones(600), np.full(600, 1.5)), "the gate of q must lie in"),
        ((np.ones(600), np.full(600, np.nan)), "the gate of q must lie in"),
        (np.ones(600), "a pair"),
    ],
)
def test_a_gate_that_cannot_be_one_is_refused(gate, words):
    s, q, _ = event_rows()
    with pytest.raises(InputError, match=words):
        quick().fit(s, q, gate=gate)


def test_rows_behind_the_gate_are_never_flagged(found):
    data, lens, candidates, _ = found
    votes = lens.votes(data)
    for one in candidates:
        share = lens.rungs[one.number].share
        for odd, held, vote in (
            (data.odd_s, one.score_s, votes.score_s[:, one.number]),
            (data.odd_q, one.score_q, votes.score_q[:, one.number]),
        ):
            behind = odd <= 1 - share
            assert behind.any()
            assert (held[behind] < 0).all()
            assert (vote[behind] < 0).all()
        assert np.array_equal(one.member, votes.member[:, one.number])


def test_a_rare_odd_kind_is_found_where_the_networks_alone_take_the_common_factor(found):
    data, _, candidates, event = found
    alone = quick(epochs=60).fit(data.s, data.q)
    p_s, p_q = alone.confidences(data.s, data.q)
    assert f1((p_s >= 0.5) & (p_q >= 0.5), event) < 0.3
    best = max(candidates, key=lambda one: f1((one.score_s >= 0) & (one.score_q >= 0), event))
    assert f1((best.score_s >= 0) & (best.score_q >= 0), event) > 0.8
    assert f1(best.member, event) > 0.8
    assert best.stability > 0.6


def test_held_out_scores_come_from_the_networks_of_the_other_half(found):
    data, lens, candidates, _ = found
    changed, other = data.fold % 2 == 0, NetworkLens()
    # New pairings in one half change nothing but the networks that were trained on it, which score the other half.
    order = np.arange(len(data))
    order[changed] = np.random.default_rng(1).permutation(order[changed])
    names = ("s", "q", "features_s", "features_q", "odd_s", "odd_q")
    mixed = {name: getattr(data, name)[order if name.endswith("q") else slice(None)] for name in names}
    rest = {name: getattr(data, name) for name in ("order", "fold", "ordered", "max_rare", "seed")}
    again = other.propose(FitRows(context=None, **mixed, **rest))
    first, second = candidates[0], again[0]
    assert np.array_equal(first.score_s[changed], second.score_s[changed])
    assert not np.array_equal(first.score_s[~changed], second.score_s[~changed])
    assert [rung.share for rung in lens.rungs] == [rung.share for rung in other.rungs]


def test_the_same_seed_gives_the_same_candidates(found):
    data, _, candidates, _ = found
    for one, other in zip(candidates, NetworkLens().propose(data), strict=True):
        assert np.array_equal(one.score_s, other.score_s)
        assert np.array_equal(one.score_q, other.score_q)
        assert np.array_equal(one.member, other.member)
        assert one.stability == other.stability


def test_facts_bring_back_the_same_votes(found):
    data, lens, _, _ = found
    back = NetworkLens.from_facts(*lens.to_facts())
    for a, b in zip(lens.votes(data), back.votes(data), strict=True):
        assert np.array_equal(a, b)
    empty = NetworkLens.from_facts(*NetworkLens().to_facts())
    assert empty.votes(data).member.shape == (len(data), 0)


def test_the_weights_that_are_kept_give_the_confidences_of_the_model():
    data = fit_rows(*regime_and_events(400)[:2])
    from coad.findings.networks import _net_of

    x = [_inputs(one) for one in (data.features_s, data.features_q)]
    model = quick(scale=False).fit(*x)
    own = model.fitted_[1.0]
    for scorer, rows, p in zip((own.scorer_s, own.scorer_q), x, model.confidences(*x), strict=True):
        assert 1 / (1 + np.exp(-_net_of(scorer).logit(rows))) == pytest.approx(p, abs=1e-5)


def test_noise_gives_no_significant_candidate():
    s, q = np.random.default_rng(3).normal(size=(2, 1000, 4))
    data = fit_rows(s, q)
    for one in NetworkLens().propose(data):
        own = (one.score_s >= 0).astype(float), (one.score_q >= 0).astype(float)
        joint = np.sum(own[0] * own[1])
        rng = np.random.default_rng(0)
        null = [np.sum(own[0] * rng.permutation(own[1])) for _ in range(199)]
        assert (1 + np.sum(np.array(null) >= joint)) / 200 > 0.01


def test_few_rows_and_constant_inputs_give_no_candidate():
    s, q = np.random.default_rng(0).normal(size=(2, 60, 3))
    lens = NetworkLens()
    assert lens.propose(fit_rows(s, q)) == []
    data = fit_rows(*event_rows(400)[:2])
    flat = {"features_s": np.zeros_like(data.features_s)}
    rest = {name: getattr(data, name) for name in data.__dataclass_fields__ if name != "features_s"}
    assert lens.propose(FitRows(**flat, **rest)) == []
    assert lens.votes(data).member.shape == (400, 0)


def test_the_lens_loads_torch_only_to_train():
    code = "import sys, coad.findings.networks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
