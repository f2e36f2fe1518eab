"""Answers of the pages that coad serves: JSON, and the files of the page itself."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from starlette.responses import Response

__all__ = ["CONTENT_TYPES", "json_answer", "static_files"]

CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}


def json_answer(value: Any) -> Response:
    """A value as JSON; NaN is an error, because pages cannot read it."""
    return Response(json.dumps(value, allow_nan=False), media_type="application/json")


def static_files(package: str, *names: str) -> dict[str, tuple[bytes, str]]:
    """Content and type of files in a package's folder ``static``, read once; nothing else on the disk is served."""
    return {
        name: (files(package).joinpath("static", name).read_bytes(), CONTENT_TYPES[name.rpartition(".")[2]])
        for name in names
    }
