"""Docstrings as numpydoc expects them: what follows the parameters gets a heading; methods of other packages are left out."""

from __future__ import annotations

import re
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _with_headings, priority=400)  # before numpydoc, at 500
    app.connect("autodoc-skip-member", _skipped)
    return {"parallel_read_safe": True}


def _skipped(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Methods that other packages give to every estimator of theirs: they describe them themselves."""
    elsewhere = not (getattr(member, "__module__", None) or "coad").startswith("coad")
    return True if elsewhere or re.fullmatch(r"set_\w+_request", name) else None


def _with_headings(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_headings(lines)


def with_headings(lines: list[str]) -> list[str]:
    """Put "Examples" before a doctest, and "Notes" before a paragraph, that follow a section such as Parameters."""
    result: list[str] = []
    section = ""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", following):
            section = line
        starts = number > 0 and not lines[number - 1].strip() and line and not line[0].isspace()
        if section and starts and not re.fullmatch(r"-{3,}", following):
            heading = "Examples" if line.startswith(">>>") else "Notes"
            if section not in ("Notes", heading) and not (heading == "Notes" and following.startswith("  ")):
                result += [heading, "-" * len(heading), ""]
                section = heading
        result.append(line)
    return result
