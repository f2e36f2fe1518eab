"""Every link inside the built pages leads somewhere, and nothing is loaded from a network: ``check_links.py build/docs``."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that links may name."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(values["href"])
        elif tag in ("img", "script", "iframe", "source", "video") and "src" in values:
            self.loads.append(values["src"])


def troubles(root: Path) -> list[str]:
    """One line for each link or file of the pages under ``root`` that is not there."""
    pages = {}
    for path in sorted(root.rglob("*.html")):
        if "_static" not in path.parts:
            page = pages[path] = _Page()
            page.feed(path.read_text(encoding="utf-8"))
    found = []
    for path, page in pages.items():
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    found.append(f"{path.relative_to(root)} loads {address} from a network")
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{path.relative_to(root)}: there is no {address}")
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{path.relative_to(root)}: there is no place {address}")
    return found


if __name__ == "__main__":
    lines = troubles(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(lines) if lines else 0)
