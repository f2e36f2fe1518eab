"""Serving the page beside a watch, in a thread of its own."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import webbrowser
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

import uvicorn

from coad.exceptions import FileError, InputError
from coad.live.page.server import OPERATE, VIEW, make_page
from coad.live.reading import WatchState
from coad.web.listening import bound_socket

__all__ = ["Page"]

#: Where tokens come from that no file has.
_VARIABLES = {OPERATE: "COAD_TOKEN", VIEW: "COAD_VIEW_TOKEN"}
_SHORTEST_TOKEN = 16  # characters; shorter ones can be guessed


class Page:
    """The page of a watch; ``with Page(watch) as page`` serves it until the end of the block.

    Parameters
    ----------
    watch
        The watch.
    port, host
        Where to listen; port 0 takes a free one.
    token_file, view_token_file
        Files with the tokens of those who may act, and of those who may only look. Without files they come from the
        environment variables ``COAD_TOKEN`` and ``COAD_VIEW_TOKEN``. On this machine alone they may be missing: then they
        are made, and printed with the address.
    """

    def __init__(
        self,
        watch: WatchState,
        port: int | None = 0,
        host: str = "127.0.0.1",
        token_file: str = "",
        view_token_file: str = "",
    ) -> None:
        given = {OPERATE: _token(OPERATE, token_file), VIEW: _token(VIEW, view_token_file)}
        if not given[OPERATE] and not _is_loopback(host):
            raise InputError(
                f"the page would listen on {host}, where others can reach it; give [page] token_file, or set COAD_TOKEN"
            )
        self.made = [role for role, token in given.items() if not token]  # only these are printed
        self.tokens = {role: token or secrets.token_urlsafe(18) for role, token in given.items()}
        if self.tokens[OPERATE] == self.tokens[VIEW]:
            raise InputError("the two tokens of the page are the same; those who only look need another one")
        self._once = secrets.token_urlsafe(18)
        self._socket = bound_socket(port or 0, host)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        app = make_page(
            watch,
            {token: role for role, token in self.tokens.items()},
            self.port,
            ended=lambda: self._server.should_exit,
            once=self._once,
        )
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="coad-page", daemon=True
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)

    def address(self, role: str) -> str:
        """The page for those who may act (``"operate"``) or only look (``"view"``), with the token."""
        return f"http://{self.host}:{self.port}/{self.tokens[role]}/"

    def open_browser(self) -> None:
        """Open the page, by an address that works once: others can read the command line of a browser."""
        webbrowser.open(f"http://{self.host}:{self.port}/{self._once}")

    def said(self) -> list[str]:
        """Lines for people: the addresses; tokens that were given are not printed."""
        lines = []
        for role, words in ((OPERATE, "page"), (VIEW, "page, only to look")):
            known = self.address(role).replace(self.tokens[role], "TOKEN")
            lines.append(f"{words}: {self.address(role) if role in self.made else known}")
        return lines

    def __enter__(self) -> Page:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(10.0)
        self._socket.close()


def _token(role: str, file: str) -> str:
    if not file:
        token, where = os.environ.get(_VARIABLES[role], ""), f"the variable {_VARIABLES[role]}"
        if not token:
            return ""
    else:
        where = file
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{file}: the token cannot be read: {error}") from error
    if len(token) < _SHORTEST_TOKEN or not all(letter.isalnum() or letter in "-_.~" for letter in token):
        raise InputError(
            f"{where}: a token has {_SHORTEST_TOKEN} or more letters, digits, - or _, and nothing else"
        )
    return token


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
