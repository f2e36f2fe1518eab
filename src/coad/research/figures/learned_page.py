"""The page of an image experiment: the table, the violins, both latent spaces, the simplified model."""

from __future__ import annotations

from pathlib import Path

from coad.report.page import Section, write_page
from coad.research.experiments._learned import FLAGGED_ABOVE, LearnedResult, beta_text
from coad.research.figures.learned import latent_figure, simplified_model_figure, violin_figure

__all__ = ["write_result_page"]


def write_result_page(result: LearnedResult, path: Path) -> None:
    """One self-contained HTML page with everything the experiment found."""
    write_page(
        path,
        f"Coincident learning on {result.name}",
        f"Two networks, trained without labels on {result.train_pairs:,} pairs of images (preset "
        f"“{result.preset}”, {result.seconds:.0f} s). Digit 0 is normal; 1, 2 and 3 are events of growing "
        f"noise. A test image, fed to both networks, is flagged where p_s·p_q > {FLAGGED_ABOVE:g}.",
        [
            Section("Digits flagged", "", table=result.digits_table()),
            Section(
                "Scores by digit", "p_s·p_q of each test image.", violin_figure(result.scores, result.digit)
            ),
            Section(
                f"Latent spaces, β = {beta_text(result.latent_beta)}",
                "t-SNE of what the last layer of each network is given.",
                latent_figure(result.latent_s, result.latent_q, result.digit),
            ),
            Section(
                "The simplified model",
                "F̂β of three ways to label the digits, if all images of a digit were alike. "
                "Each is the best for a range of β.",
                simplified_model_figure(marks=list(result.scores)),
            ),
            Section(
                "Seeds",
                "The best start is kept by F̂ on held-out pairs; no label takes part.",
                table=result.seeds_table(),
            ),
        ],
        "The digits are real images; which pairs they form, and which are noisy, is simulated.",
    )
