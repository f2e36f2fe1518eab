"""The reference of the command line: Typer's own description of the commands, a page each in ``reference/commands/``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference" / "commands"))
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> list[str]:
    """Write a page for each command, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = command_texts()
    for old in folder.glob("*.md"):
        if old.stem not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / f"{name}.md"
        if (
            not path.exists() or path.read_text(encoding="utf-8") != text
        ):  # Sphinx reads again what has changed
            path.write_text(text, encoding="utf-8")
    return sorted(texts)


def command_texts() -> dict[str, str]:
    """Command, such as ``find`` → its page in Markdown, with its sub-commands on it."""
    command = [sys.executable, "-m", "typer", "coad.__main__", "utils", "docs", "--name", "coad"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pages = re.split(r"^## `coad ([\w-]+)`\n", text, flags=re.M)[1:]
    return {
        name: f"# `coad {name}`\n" + re.sub(r"^### ", "## ", body, flags=re.M)
        for name, body in zip(pages[::2], pages[1::2], strict=True)
    }
