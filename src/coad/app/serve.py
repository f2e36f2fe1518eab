"""Serving the explorer on this machine only."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from coad.exceptions import CoadError
from coad.web.listening import bound_socket

if TYPE_CHECKING:
    from coad.app.explorer import Explorer

__all__ = ["bound_socket", "get_ready", "serve"]

HOST = "127.0.0.1"


def get_ready() -> None:
    """Check that all packages are there, and start to load the slow ones in the background."""
    for name in ("fastapi", "uvicorn", "plotly"):
        if find_spec(name) is None:
            raise CoadError(f"the explorer needs {name}: pip install 'coad[app]'")
    threading.Thread(target=_load, name="coad-load", daemon=True).start()


def _load() -> None:
    """Load what nothing else loads: two threads that import one package at once find it half done."""
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401


def serve(
    explorer: Explorer, listening: socket.socket, *, open_browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until interrupted; ``say`` is called with the address, which has the token, and the file of marks."""
    import uvicorn

    from coad.app.findings_session import open_session
    from coad.app.server import make_app

    session = open_session(explorer)
    token, once = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
    port = int(listening.getsockname()[1])
    address = f"http://{HOST}:{port}/{token}/"
    config = uvicorn.Config(
        make_app(session, token, port, once), log_level="warning", access_log=False, lifespan="off"
    )
    say(f"explorer: {address}")
    say(f"marks: {explorer.marks.path}; Ctrl-C ends")
    sys.stdout.flush()
    session.begin()
    if open_browser:
        threading.Timer(0.3, _open, [f"http://{HOST}:{port}/{once}"]).start()
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
