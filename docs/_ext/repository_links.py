"""Links to files of the repository that are not pages of their own: to the page that includes them."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import Any

#: A file of the repository → the page that shows it.
_PAGES = {
    "benchmarks/RESULTS.md": "results/all",
    "CHANGELOG.md": "results/changes",
    "README.md": "index",
}
_LINK = re.compile(r"\]\((?:\.\./)*([\w./-]+\.(?:md|toml))(#[\w-]*)?\)")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _relink)
    return {"parallel_read_safe": True}


def _relink(app: Any, page: str, text: list[str]) -> None:
    """Rewrite ``](../benchmarks/RESULTS.md)`` in a page, and in what it includes whole."""
    here = str(Path(page).parent)

    def link(found: re.Match[str]) -> str:
        file, place = found.group(1), found.group(2) or ""
        if file not in _PAGES:
            return found.group(0)
        return f"]({relpath(_PAGES[file], here)}.md{place})"

    text[0] = _LINK.sub(link, text[0])
