"""Pictures that suit a light and a dark page, and the pages that a tutorial writes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

#: A grey that can be read on white and on the theme's dark background; the pictures themselves have no background.
_GREY = "#808a99"
#: Colours that keep a contrast of 3 to 1 with both backgrounds.
_COLOURS = ["#3f87d9", "#d9662b", "#2c9c78", "#b06ac4", "#b58900", "#808a99"]


def plain_pictures(_config: Any = None, _name: str = "") -> None:
    """Set matplotlib's defaults; called before every tutorial, and by pages that draw."""
    import matplotlib.pyplot as plt

    plt.rcdefaults()
    plt.rcParams.update(
        {
            "figure.figsize": (7.2, 3.8),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "savefig.transparent": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": plt.cycler(color=_COLOURS),
            "legend.frameon": False,
            "font.size": 10,
            **dict.fromkeys(
                (
                    "text.color",
                    "axes.labelcolor",
                    "axes.edgecolor",
                    "axes.titlecolor",
                    "xtick.color",
                    "ytick.color",
                ),
                _GREY,
            ),
            "figure.facecolor": "none",
            "axes.facecolor": "none",
        }
    )


def pictures_in_cells() -> None:
    """Set matplotlib's defaults for the code cells of a page."""
    plain_pictures()
    if "ipykernel" in sys.modules:  # and sharp on screens with small points
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("retina")


def connect(app: Any) -> None:
    app.connect("build-finished", _copy_pages)
    app.connect("build-finished", _check_pictures)


def _check_pictures(app: Any, error: Exception | None) -> None:
    """A cell that shows a picture has one on its page."""
    if error is not None:
        return
    for page in sorted(app.env.found_docs):
        wanted = app.env.doc2path(page).read_text(encoding="utf-8").count("plt.show()")
        built = (Path(app.outdir) / f"{page}.html").read_text(encoding="utf-8").count("<img ")
        if app.env.doc2path(page).suffix == ".md" and built < wanted:
            raise ExtensionError(
                f"{page}: {wanted} pictures are shown by its cells, and {built} are on the page"
            )


def _copy_pages(app: Any, error: Exception | None) -> None:
    """Put the HTML pages that tutorials wrote beside the tutorials, which show them in a frame."""
    if error is not None:
        return
    scratch = Path(app.srcdir) / "tutorials"
    for page in sorted(scratch.rglob("*.html")):
        target = Path(app.outdir) / "auto_examples" / page.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, target)
