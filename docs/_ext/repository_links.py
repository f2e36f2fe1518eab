"""Links to files of the repository, in pages and in the files that pages include: to the page that shows the file."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

#: A file outside docs/ → the page that shows it.
_PAGES = {
    "benchmarks/RESULTS.md": "docs/results/all.md",
    "CHANGELOG.md": "docs/results/changes.md",
    "CONTRIBUTING.md": "docs/guide/contributing.md",
    "README.md": "docs/guide/readme.md",
}
_LINK = re.compile(r"\]\(([\w./-]+\.md)(#[\w-]*)?\)")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", lambda app, page, text: _relink(f"docs/{page}", f"docs/{page}", text))
    app.connect("include-read", _relink_included)
    return {"parallel_read_safe": True}


def _relink_included(app: Any, file: Path, _: str, text: list[str]) -> None:
    page = app.env.docname  # MyST passes on only the last part of it
    path = (Path(app.srcdir) / file).resolve().relative_to(Path(app.srcdir).resolve().parent)
    _relink(path.as_posix(), f"docs/{page}", text)


def _relink(file: str, page: str, text: list[str]) -> None:
    """Make the links of ``file``, which are relative to it, relative to ``page``, which shows it."""

    def link(found: re.Match[str]) -> str:
        target = normpath(join(dirname(file), found.group(1)))
        return f"]({relpath(_PAGES.get(target, target), dirname(page))}{found.group(2) or ''})"

    text[0] = _LINK.sub(link, text[0])
