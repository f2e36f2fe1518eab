"""The image experiments end to end in small, and the pages they draw."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the learned mode needs torch")

from coad.exceptions import FileError, InputError
from coad.research.experiments.digits import RECIPES as DIGITS_RECIPES
from coad.research.experiments.digits import reproduce_digits
from coad.research.experiments.images import DigitRow, ImageResult, StartRow, folded_pairs
from coad.research.experiments.mnist import PAPER_TABLE, RECIPES, reproduce_mnist

needs_plotly = pytest.mark.skipif(
    importlib.util.find_spec("plotly") is None, reason="plotly is not installed"
)

SMALL = dataclasses.replace(DIGITS_RECIPES["fast"], n_starts=2, epochs=60)


@pytest.fixture(scope="module")
def digits_result() -> ImageResult:
    return reproduce_digits(betas=(1.0,), recipe=SMALL, random_state=0)


def made_result() -> ImageResult:
    """A result with known numbers; nothing is trained."""
    rng = np.random.default_rng(0)
    digit = np.repeat(np.arange(4), 30)
    scores = {beta: np.where(digit > 0, 0.9, 0.1) + rng.uniform(0, 0.1, 120) for beta in PAPER_TABLE}
    table = [
        DigitRow(beta, d, float(d > 0), 30, PAPER_TABLE[beta][d]) for beta in PAPER_TABLE for d in range(4)
    ]
    starts = [StartRow(beta, 7, "ok", 0.6789, 0.2, 0.21, kept=True) for beta in PAPER_TABLE]
    latent = rng.normal(size=(120, 8)) + digit[:, None]
    return ImageResult("MNIST", "fast", table, starts, 12.0, 1000, digit, scores, 1.0, latent, latent)


def test_digits_are_learned_without_labels(digits_result: ImageResult) -> None:
    zero, one, two, three = digits_result.flagged(1.0)
    assert zero <= 0.05
    assert one >= 0.9
    assert two >= 0.8
    assert three <= 0.2


def test_the_table_counts_what_the_scores_say(digits_result: ImageResult) -> None:
    product = digits_result.scores[1.0]
    assert [row.digit for row in digits_result.table] == [0, 1, 2, 3]
    for row in digits_result.table:
        own = product[digits_result.digit == row.digit]
        assert row.images == len(own)
        assert row.flagged == pytest.approx(np.mean([p > 0.5 for p in own]))
        assert row.paper is None


def test_the_kept_start_is_the_best_by_validation(digits_result: ImageResult) -> None:
    assert len(digits_result.starts) == SMALL.n_starts
    kept = [row for row in digits_result.starts if row.kept]
    assert len(kept) == 1
    assert kept[0].fbeta_hat == max(row.fbeta_hat for row in digits_result.starts)


def test_latent_rows_match_the_test_images(digits_result: ImageResult) -> None:
    assert digits_result.latent_s.shape[0] == digits_result.latent_q.shape[0] == len(digits_result.digit)


def test_folds_share_no_image() -> None:
    # The brightness of a constant image is its number, so an image is known wherever it is shown.
    labels = np.arange(240) % 4
    images = np.repeat(np.arange(240, dtype=np.uint8), 64).reshape(240, 8, 8)
    pairs, fold = folded_pairs(images, labels, 900, 3, np.random.default_rng(0), crop=8, roll=1)
    shown = [
        set(np.round(np.concatenate([pairs.s[fold == k], pairs.q[fold == k]])[:, 0, 0, 0] * 255).astype(int))
        for k in range(3)
    ]
    assert all(len(images) > 50 for images in shown)
    assert not shown[0] & shown[1]
    assert not shown[0] & shown[2]
    assert not shown[1] & shown[2]


def test_an_unknown_beta_is_an_error() -> None:
    with pytest.raises(InputError, match="not part of this result"):
        made_result().flagged(2.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "slow"}, "'fast'"),
        ({"starts": 0}, "at least 1"),
        ({"betas": ()}, "at least one beta"),
        ({"betas": (1.0, 1.0)}, "each once"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        reproduce_digits(**change)  # type: ignore[arg-type]


def test_mnist_without_files_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"train-images-idx3-ubyte\.gz.*--data"):
        reproduce_mnist(data=tmp_path)


def test_paper_table_and_presets_are_the_papers() -> None:
    assert PAPER_TABLE[math.inf] == (0.005, 1.0, 0.992, 0.996)
    paper = RECIPES["paper"]
    assert (paper.epochs, paper.epoch_size, paper.batch_size, paper.learning["lr"]) == (3000, 1800, 760, 1e-4)


@needs_plotly
def test_the_page_holds_our_numbers_beside_the_papers_and_needs_no_network(tmp_path: Path) -> None:
    from coad.research.figures.images import write_images_page

    path = tmp_path / "mnist.html"
    write_images_page(made_result(), path)
    page = path.read_text(encoding="utf-8")
    without_script = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for words in ("96.3 %", "99.6 %", "100.0 %", "0.6789", "β = ∞", "Latent spaces", "simplified model"):
        assert words in without_script
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    assert [p.name for p in path.parent.iterdir()] == ["mnist.html"]


@needs_plotly
def test_violins_draw_every_beta_and_digit_within_the_unit_interval() -> None:
    from coad.research.figures.images import violin_figure

    result = made_result()
    figure = violin_figure(result.scores, result.digit)
    assert len(figure.data) == 3 * 4
    assert all(tuple(trace.span) == (0, 1) for trace in figure.data)


@needs_plotly
def test_latent_picture_separates_what_is_separate_and_survives_dead_units() -> None:
    from coad.research.figures.images import latent_figure

    rng = np.random.default_rng(0)
    digit = np.repeat([0, 1], 40)
    latent = np.zeros((80, 3))
    latent[:, 1] = digit * 50 + rng.normal(size=80)  # units 0 and 2 are dead
    figure = latent_figure(latent, np.zeros((80, 3)), digit)
    left = {trace.name: np.array([trace.x, trace.y]).T for trace in figure.data[:2]}
    gap = np.linalg.norm(left["0"].mean(axis=0) - left["1"].mean(axis=0))
    assert gap > 10 * max(points.std(axis=0).max() for points in left.values())
    assert np.isfinite(np.concatenate([left["0"], left["1"]])).all()
    assert (np.array([figure.data[2].x, figure.data[2].y]) == 0).all()


@needs_plotly
def test_simplified_model_changes_its_best_labeling_with_beta() -> None:
    from coad.research.figures.images import simplified_model_figure

    figure = simplified_model_figure([0.05, 1.0, 100.0], marks=[0.05, math.inf])
    curves = np.array([trace.y for trace in figure.data])
    assert curves.argmax(axis=0).tolist() == [0, 1, 2]
