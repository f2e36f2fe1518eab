"""One page of results, a section per benchmark, each rewritten by its own run."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parent / "RESULTS.md"
_HEAD = "# Measured\n\nWritten by `make bench` (or `python -m benchmarks NAME`); not edited by hand.\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + " --- |" * len(headers)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """What this was measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text())
        model = found.group(1) if found else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{date.today()}, {model}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def record(name: str, title: str, body: str) -> None:
    """Put a section into the page in place of the one that its last run left."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else _HEAD
    section = f"<!-- {name} -->\n## {title}\n\n{machine()}\n\n{body}\n<!-- end {name} -->\n"
    old = re.compile(rf"<!-- {re.escape(name)} -->.*?<!-- end {re.escape(name)} -->\n", re.S)
    text = old.sub(lambda _: section, text) if old.search(text) else text.rstrip() + "\n\n" + section
    PAGE.write_text(text, encoding="utf-8")
    print(f"\n{title}\n{body}\n", flush=True)
