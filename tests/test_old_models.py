"""Models that earlier versions saved load today and say the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import coad
from coad.data.model_files import _checksum
from coad.data.model_formats import FORMAT_VERSION
from coad.exceptions import FileError
from coad.workflows.model_folder import load_model
from coad.workflows.scoring import Source, score_files

MODELS = Path(__file__).parent / "models"


def test_a_detector_of_format_1_scores_and_flags_as_it_did():
    detector = coad.load(MODELS / "format_1" / "columns")
    known = np.load(MODELS / "format_1" / "columns.npz")
    rows = detector.score_rows(known["s"], known["q"], known["context"])
    np.testing.assert_allclose(rows.p_s, known["p_s"], rtol=1e-5)
    np.testing.assert_allclose(rows.p_q, known["p_q"], rtol=1e-5)
    np.testing.assert_array_equal(rows.flag, known["flag"])
    assert 0 < known["flag"].sum() < len(known["flag"])
    assert detector.n_starts == 2, "it was called n_seeds"


def test_a_catalogue_of_format_1_tells_the_modes_that_it_told():
    catalogue = coad.load(MODELS / "format_1" / "modes")
    known = np.load(MODELS / "format_1" / "modes.npz")
    np.testing.assert_array_equal(catalogue.predict_mode(known["s"], known["q"]), known["mode"])
    np.testing.assert_array_equal(catalogue.predict(known["s"], known["q"]), known["flag"])
    assert len(np.unique(known["mode"])) >= 3


def test_a_catalogue_of_format_4_tells_the_modes_that_it_told():
    catalogue = coad.load(MODELS / "format_4" / "modes")
    known = np.load(MODELS / "format_4" / "modes.npz")
    np.testing.assert_array_equal(catalogue.predict_mode(known["s"], known["q"]), known["mode"])
    np.testing.assert_array_equal(catalogue.predict(known["s"], known["q"]), known["flag"])
    np.testing.assert_allclose(catalogue.score_samples(known["s"], known["q"]), known["score"], atol=1e-5)
    assert set(np.unique(known["mode"])) == {-1, 0, 1, 2}
    assert 0 < known["flag"].sum() < len(known["flag"])


def test_a_model_of_files_of_format_1_scores_a_file_as_it_did(tmp_path):
    model, recipe = load_model(MODELS / "format_1" / "windows")
    score_files(model, recipe, Source(MODELS / "format_1" / "windows.csv"), tmp_path / "scores.csv")
    now, then = (
        np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
        for path in (tmp_path / "scores.csv", MODELS / "format_1" / "windows_scores.csv")
    )
    for name in ("row", "last_row", "time", "p_s", "p_q", "score"):
        np.testing.assert_allclose(now[name], then[name], rtol=1e-5, err_msg=name)
    assert now["flag"].tolist() == then["flag"].tolist()
    assert then["flag"].tolist().count(True) > 0


def test_a_detector_of_format_2_keeps_its_thresholds_and_its_dismissed_kind():
    detector = coad.load(MODELS / "format_2" / "dismissed")
    known = np.load(MODELS / "format_2" / "dismissed.npz")
    rows = detector.score_rows(known["s"], known["q"])
    np.testing.assert_allclose(rows.p_s, known["p_s"], rtol=1e-5)
    np.testing.assert_array_equal(rows.flag, known["flag"])
    assert 0 < known["flag"].sum() < len(known["flag"])
    assert detector.rule_.alpha == known["alpha"]
    assert len(detector.rule_.dismissed) == 1
    assert rows.dismissed.any()


def test_thresholds_of_format_3_keep_the_independent_background_they_were_picked_with():
    detector = coad.load(MODELS / "format_3" / "thresholds")
    known = np.load(MODELS / "format_3" / "thresholds.npz")
    np.testing.assert_array_equal(detector.predict(known["s"], known["q"]), known["flag"])
    assert 0 < known["flag"].sum() < len(known["flag"])
    found = detector.evaluate(known["s"], known["q"], context=known["context"])
    assert found.fbeta_hat == pytest.approx(float(known["fbeta_hat"]), rel=1e-12)
    assert (found.p_value, detector.rule_.correlation) == (known["p_value"], 0)
    assert detector.background == detector.result_.background.kind == "independent"
    again = detector.tune(beta=0.2)
    assert [again.threshold_s_, again.threshold_q_] == known["tuned"].tolist()


def test_a_folder_of_a_newer_format_is_refused_with_a_sentence(tmp_path):
    folder = tmp_path / "newer"
    shutil.copytree(MODELS / "format_1" / "columns", folder)
    facts = json.loads((folder / "model.json").read_text())
    facts.pop("checksum")
    facts["format_version"] = FORMAT_VERSION + 1
    facts["checksum"] = _checksum(facts)
    (folder / "model.json").write_text(json.dumps(facts))
    with pytest.raises(FileError, match=rf"format version {FORMAT_VERSION + 1}.*install a newer coad"):
        coad.load(folder)


def test_findings_of_format_4_keep_what_followed_from_decisions(tmp_path):
    found = coad.load(MODELS / "format_4" / "findings")
    known = np.load(MODELS / "format_4" / "findings.npz")
    rows = found.score_rows(known["s"], known["q"])
    np.testing.assert_array_equal(rows.flag, known["flag"])
    np.testing.assert_array_equal(rows.mode, known["finding"])
    np.testing.assert_allclose(rows.score, known["score"], rtol=1e-5)
    assert found[3].verdict == "no: unlike the events"
    found.decide(3, "event").save(tmp_path / "run")
    again = coad.load(tmp_path / "run")
    assert again.predict(known["s"], known["q"])[found[3].rows].all()
    assert 0 < known["flag"].sum() < again.predict(known["s"], known["q"]).sum()
