"""How Sphinx builds these pages. `make docs` runs it; warnings are errors, and nothing is fetched from a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# One thread: the networks of the tutorials are too small for two, which on a busy machine wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tutorials run `coad` as a terminal would: that of this environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import gallery

import coad

project = "coad"
author = "the coad developers"
version = release = coad.__version__
copyright = f"{author}; BSD-3-Clause"

extensions = [
    "command_pages",
    "repository_links",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "docstrings",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # its name on PyPI; MathJax itself, so that formulas need no network
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["auto_examples/*.ipynb", "auto_examples/*.py", "tutorials/*.rst"]
smartquotes = False  # they make a dash of the two hyphens of an option
templates_path = ["_templates"]
nitpicky = False  # docstrings link to types of NumPy and torch, whose inventories would come from a network

# Pages are MyST Markdown; those with code cells are run by the build, and a cell that fails stops it.
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# Tutorials are scripts; they run in a scratch folder, and pages that they write are shown in them.
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery.plain_pictures",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "min_reported_time": 1000,
    "remove_config_comments": True,
}

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters say it in words
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "coad"
html_static_path = ["_static"]
html_css_files = ["coad.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "coad"},
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": {"[!a]**": ["page-toc"], "auto_examples/*": []},  # what commands print is wide
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}


def setup(app: object) -> None:
    gallery.connect(app)
