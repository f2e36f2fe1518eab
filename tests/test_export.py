"""Models that travel: the ONNX graph says what Python says; LUME and MLflow models run without coad."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from makers import event_rows

import coad
from coad.exceptions import CoadWarning, FileError, InputError
from coad.export import OnnxDetector, to_lume, to_mlflow, to_onnx


def fitted(shape, seed=0, **settings):
    """(detector, s, q): a quick fit, whose quality does not matter."""
    s, q, _ = event_rows(300, shape, rate=0.1, shift=(3, 3), seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = coad.CoAD(**{"n_starts": 1, "epochs": 3, "random_state": 0} | settings).fit(s, q)
    return det, s, q


def agrees(path, det, s, q, context=None):
    """Whether a file says of some rows what the detector says, to 1e-5 and with the same decisions."""
    expected, found = (
        det.score_rows(s, q, *[] if context is None else [context]),
        OnnxDetector(path)(s, q, context),
    )
    assert np.abs(found["p_s"] - expected.p_s).max() <= 1e-5
    assert np.abs(found["p_q"] - expected.p_q).max() <= 1e-5
    assert found["flagged"].tolist() == expected.flag.tolist()
    return True


@pytest.fixture(scope="module")
def exported(two_column_model, tmp_path_factory):
    """(detector, file) of two columns in each input."""
    det = two_column_model.at(1)
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    to_onnx(det, path)
    return det, path


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_the_file_takes_any_number_of_rows(exported, n):
    det, path = exported
    s, q, event = event_rows(1000, (2,), rate=0.08, shift=(4, 4), seed=1)
    assert agrees(path, det, s[:n], q[:n])
    assert n < 1000 or det.predict(s, q)[event].mean() > 0.9  # rows of both kinds were compared


@pytest.mark.parametrize(
    "shape",
    [(2, 40), pytest.param((1, 12, 12), marks=pytest.mark.slow)],
    ids=["windows", "images"],
)
def test_windows_and_images_are_exported_with_an_ensemble(shape, tmp_path):
    det, s, q = fitted(shape, n_starts=2, ensemble=True)
    det.set_threshold(float(np.median(det.score_samples(s, q))))  # the rule of a product
    done = to_onnx(det, tmp_path / "m.onnx")
    assert 0 < done.difference <= 1e-5
    assert agrees(done.path, det, s, q)
    assert 0.4 < OnnxDetector(done.path)(s, q)["flagged"].mean() < 0.6


def test_scaling_per_context_and_clipping_are_in_the_graph(tmp_path):
    s, q, _ = event_rows(300, (2,), rate=0.1, shift=(3, 3))
    context = np.where(np.arange(300) % 3, "warm", "cold")
    context[:5] = "few"  # too few rows for a scale of their own
    s[context == "warm"] *= 50
    s[::40, 0] = -9999
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = coad.CoAD(n_starts=1, epochs=3, random_state=0).fit(s, q, context=context)
        assert det.scaler_s_.limits is not None
        to_onnx(det, tmp_path / "m.onnx")
        context[-9:] = "new"
        assert agrees(tmp_path / "m.onnx", det, s, q, context)
    own = OnnxDetector(tmp_path / "m.onnx")
    one = [own(s[-1:], q[-1:], [name])["p_s"][0] for name in ("warm", "cold", "new")]
    assert len(set(one)) == 3
    with pytest.raises(ValueError, match="give one per row"):
        own(s, q)
    with pytest.raises(ValueError, match="of another type"):
        own(s[:2], q[:2], [1, 2])


@pytest.mark.parametrize("orientation", ["high", "low"])
def test_thresholds_of_plain_scores_are_exported_exactly(orientation, tmp_path):
    rng = np.random.default_rng(0)
    s, q = rng.normal(size=(2, 777)).round(2)  # ties
    s[:60] += 5
    q[:60] += 5
    sign = -1 if orientation == "low" else 1
    det = coad.CoincidenceThreshold(ordered=False, orientation=orientation).fit(sign * s, sign * q)
    done = to_onnx(det, tmp_path / "m.onnx", rows=(sign * s, sign * q))
    assert done.difference == 0.0
    edge = sign * np.array(
        [-1e300, *det._ladder_s[[0, 5, -1]], np.nextafter(det.threshold_s_, -9), det.threshold_s_]
    )
    found, expected = OnnxDetector(done.path)(edge, edge), det.score_rows(edge, edge)
    assert found["p_s"].tolist() == expected.p_s.tolist()
    assert found["flagged"].tolist() == expected.flag.tolist()


def test_a_model_that_found_nothing_flags_nothing(tmp_path):
    det = coad.CoincidenceThreshold().fit(*np.random.default_rng(0).normal(size=(2, 500)))
    assert det.status_ == "no coincidence"
    to_onnx(det, tmp_path / "m.onnx")
    assert not OnnxDetector(tmp_path / "m.onnx")([1e9], [1e9])["flagged"].any()


def test_the_file_tells_what_it_holds_and_nothing_of_this_machine(exported):
    det, path = exported
    own = OnnxDetector(path)
    assert own.facts["rule"] == det.rule_.words()
    assert own.facts["coad_version"] == coad.__version__
    assert (own.columns_s, own.columns_q, own.contexts) == (["s_0", "s_1"], ["q_0", "q_1"], None)
    assert str(Path(coad.__file__).parent).encode() not in path.read_bytes()
    assert b"site-packages" not in path.read_bytes()


def test_wrong_rows_are_refused(exported):
    own = OnnxDetector(exported[1])
    with pytest.raises(ValueError, match=r"s has shape \(2, 3\); this model takes rows of shape \(2,\)"):
        own(np.zeros((2, 3)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="s has 3 rows and q has 2"):
        own(np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="missing or infinite"):
        own(np.full((1, 2), np.nan), np.zeros((1, 2)))


def test_modules_and_skorch_nets_of_the_user_are_exported(tmp_path):
    from skorch import NeuralNet

    class Small(torch.nn.Module):
        def __init__(self, width=3):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
            )

        def forward(self, x):
            return self.layers(x).squeeze(1)

    net = NeuralNet(Small, criterion=torch.nn.MSELoss, module__width=5)
    det, s, q = fitted((2,), net=net)
    assert (
        sum(p.numel() for p in det.fitted_[1.0].scorer_s.net.parameters()) == 21
    )  # width 5, as skorch was told
    to_onnx(det, tmp_path / "m.onnx")
    assert agrees(tmp_path / "m.onnx", det, s, q)


def test_a_module_that_does_not_trace_is_refused_in_a_line(tmp_path):
    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(2, 1)

        def forward(self, x):
            return self.last(x if x.sum() > 0 else -x)

    det, _, _ = fitted((2,), net=Branching)
    with pytest.raises(InputError, match="cannot be traced for ONNX") as refused:
        to_onnx(det, tmp_path / "m.onnx")
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_what_has_no_form_in_onnx_is_refused_by_name(two_column_model, tmp_path):
    s, q, _ = event_rows(300, ())
    scorers = coad.CoincidenceThreshold(np.abs, np.abs, n_permutations=0).fit(s, q)
    by_modes, dismissing = two_column_model.at(1), two_column_model.at(1)
    by_modes.context_ = coad.CoincidenceModes()
    dismissing.rule_ = replace(dismissing.rule_, dismissed=("kind",))
    for det, why in (
        (coad.CoincidenceModes(), "a catalogue of modes"),
        (coad.Findings(), "findings"),
        (scorers, "detectors and functions that make the scores"),
        (by_modes, "finds the regime of each row"),
        (dismissing, "1 dismissed kinds of events"),
        ("model", "a str cannot be exported"),
    ):
        with pytest.raises(InputError, match=why):
            to_onnx(det, tmp_path / "m.onnx")


def test_a_graph_that_differs_from_python_is_not_written(exported, tmp_path, monkeypatch):
    det, _ = exported
    save = onnx.save

    def spoiled(model, path):
        weights = model.graph.initializer[0]
        weights.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights) + 0.01, weights.name)
        )
        save(model, path)

    monkeypatch.setattr(onnx, "save", spoiled)
    with pytest.raises(InputError, match="differs from Python on"):
        to_onnx(det, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def plant_model():
    """A detector of named columns with contexts, and five rows of its columns."""
    s, q, _ = event_rows(300, (2,), rate=0.1, shift=(3, 3))
    load = np.where(np.arange(300) % 2, "high", "low")
    s, q = pd.DataFrame(s, columns=["m1", "m2"]), pd.DataFrame(q, columns=["v1", "v2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = coad.CoAD(n_starts=1, epochs=3, random_state=0).fit(s, q, context=load)
    return det, (s, q, load)


#: Run where neither coad nor torch can be imported, as on a machine that only has the exported model.
ELSEWHERE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("coad", "torch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""


def run_elsewhere(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE + code], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_lume_model_runs_without_coad(plant_model, tmp_path):
    det, (s, q, load) = plant_model
    to_lume(det, tmp_path / "lume", rows=(s, q, load))
    row = {**s.iloc[7].to_dict(), **q.iloc[7].to_dict(), "context": "high"}
    found = run_elsewhere(
        "import json\n"
        "from model import Model\n"
        "m = Model()\n"
        f"m.set({row!r})\n"
        "first = m.get(['p_s', 'p_q', 'flagged', 'm1', 'context'])\n"
        "m.set({'context': 'low'})\n"
        "other = m.get_value('p_s')\n"
        "m.reset()\n"
        "print(json.dumps([first, other, m.get_value('m1')]))",
        tmp_path / "lume",
    )
    expected = det.score_rows(s[7:8], q[7:8], ["high"])
    first, other, reset = found
    assert first["p_s"] == pytest.approx(expected.p_s[0], abs=1e-5)
    assert first["p_q"] == pytest.approx(expected.p_q[0], abs=1e-5)
    assert (first["flagged"], first["m1"], first["context"]) == (bool(expected.flag[0]), row["m1"], "high")
    assert other != first["p_s"]
    assert reset == 0.0


def test_an_mlflow_model_runs_without_coad_and_keeps_the_index(plant_model, tmp_path):
    det, (s, q, load) = plant_model
    to_mlflow(det, tmp_path / "m", rows=(s, q, load))
    assert not list((tmp_path / "m").rglob("*.pkl"))
    signature = (tmp_path / "m" / "MLmodel").read_text()
    assert all(
        word in signature for word in ("m1", "v2", "context", "p_s", "p_q", "flagged", "input_example.json")
    )
    table = pd.concat([s, q], axis=1)[:6].assign(context=load[:6])
    table.index = list("abcdef")
    table.to_json(tmp_path / "table.json")
    found = run_elsewhere(
        "import json, mlflow, pandas as pd\n"
        "out = mlflow.pyfunc.load_model('m').predict(pd.read_json('table.json'))\n"
        "print(json.dumps([list(out.index), out.p_s.tolist(), out.p_q.tolist(), out.flagged.tolist()]))",
        tmp_path,
    )
    expected = det.score_rows(s[:6], q[:6], load[:6])
    assert found[0] == list("abcdef")
    assert np.allclose(found[1], expected.p_s, atol=1e-5)
    assert np.allclose(found[2], expected.p_q, atol=1e-5)
    assert found[3] == expected.flag.tolist()


@pytest.mark.slow
def test_windows_become_arrays_in_lume_and_mlflow(tmp_path):
    import mlflow

    from coad.export.lume_model import Model

    det, s, q = fitted((2, 40))
    expected = det.score_rows(s[:2], q[:2])
    to_lume(det, tmp_path / "lume")
    model = Model(tmp_path / "lume" / "model.onnx")
    model.set({"s": s[1].astype(np.float32), "q": q[1].astype(np.float32)})
    assert model.get_value("p_s") == pytest.approx(expected.p_s[1], abs=1e-5)
    to_mlflow(det, tmp_path / "m")
    rows = {"s": s[:2].astype(np.float32), "q": q[:2].astype(np.float32)}
    found = mlflow.pyfunc.load_model(tmp_path / "m").predict(rows)
    assert np.allclose(found["p_q"], expected.p_q, atol=1e-5)


def test_only_an_export_is_replaced(exported, tmp_path):
    det, _ = exported
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("three years")
    with pytest.raises(FileError, match="is not such an export"):
        to_lume(det, mine)
    assert (mine / "thesis.txt").read_text() == "three years"
    to_lume(det, tmp_path / "lume")
    to_lume(det, tmp_path / "lume")
    assert sorted(one.name for one in (tmp_path / "lume").iterdir()) == [
        "model.onnx",
        "model.py",
        "requirements.txt",
    ]


def test_columns_that_would_share_a_name_are_refused(tmp_path):
    s, q, _ = event_rows(300, (2,), rate=0.1, shift=(3, 3))
    names = ["p_s", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoadWarning)
        det = coad.CoAD(n_starts=1, epochs=3, random_state=0).fit(
            pd.DataFrame(s, columns=names), pd.DataFrame(q, columns=["c", "d"])
        )
    with pytest.raises(InputError, match="two variables would be called 'p_s'"):
        to_lume(det, tmp_path / "lume")


def test_the_command_exports_a_saved_model(run_coad, two_column_model, tmp_path):
    two_column_model.at(1).save(tmp_path / "model")
    done = run_coad("export", tmp_path / "model", "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert done.code == 0, done.err
    assert "as in Python on 1,000 rows (largest difference" in done.out
    assert OnnxDetector(tmp_path / "m.onnx").shape_s == (2,)
    done = run_coad("export", tmp_path / "nothing", "--to", "onnx", "--out", tmp_path / "n.onnx")
    assert done.code == 2
    assert "is not a saved model" in done.err
    done = run_coad("export", tmp_path / "model", "--to", "onnx", "--out", tmp_path / "no" / "n.onnx")
    assert done.code == 2
    assert "there is no folder" in done.err
