"""Who may ask a page that coad serves: those who know its secret token; and headers against everything else."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import Any

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Guard"]

_LARGEST_BODY = 20_000
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Answers to those who know a token; refuses other hosts and other pages, and adds headers to every answer.

    Parameters
    ----------
    app
        What is guarded. It finds the role of who asks in ``scope["state"]["role"]``.
    tokens
        Token to role. Everything is under ``/token/``; programs may send ``Authorization: Bearer token`` instead.
    names
        Host names that are answered to (against DNS rebinding); None: any, where the page is served to other machines.
    port
        Part of these names.
    once
        ``/once`` leads to the page of the first token a single time: for a browser's command line, which others can read.
    open_paths
        What is answered without a token.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Mapping[str, str],
        *,
        names: Collection[str] | None,
        port: int,
        once: str = "",
        open_paths: Collection[str] = (),
    ) -> None:
        self.app, self.tokens, self.once, self.open_paths = app, tokens, once, open_paths
        self.hosts = None if names is None else {f"{name}:{port}" for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets here

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        path, role = self._who(scope["path"], headers.get("authorization", ""))
        answer = self._refusal(scope, headers, role)
        if answer is not None:
            await answer(scope, receive, with_headers)
            return
        state = {**scope.get("state", {}), "role": role}
        await self.app(
            {**scope, "path": path, "raw_path": path.encode(), "state": state}, receive, with_headers
        )

    def _who(self, path: str, authorization: str) -> tuple[str, str]:
        """The path without a token, and the role of the token; the role of strangers is empty."""
        first, slash, rest = path.removeprefix("/").partition("/")
        bearer = authorization.removeprefix("Bearer ").strip()
        for token, role in self.tokens.items():
            if slash and secrets.compare_digest(first.encode(), token.encode()):
                return "/" + rest, role
            if bearer and secrets.compare_digest(bearer.encode(), token.encode()):
                return path, role
        return path, ""

    def _refusal(self, scope: Scope, headers: Mapping[str, str], role: str) -> Response | None:
        """A refusal, or the way from the address that works once; None for what is answered."""
        host = headers.get("host", "")
        if self.hosts is not None and host not in self.hosts:
            return PlainTextResponse("this page answers only to 127.0.0.1 and localhost", 403)
        origin = headers.get("origin")
        if origin is not None and origin not in {f"{scheme}://{host}" for scheme in ("http", "https")}:
            return PlainTextResponse("requests of other pages are refused", 403)
        path = scope["path"]
        if self.once and secrets.compare_digest(path.encode(), f"/{self.once}".encode()):
            self.once = ""
            return RedirectResponse(f"/{next(iter(self.tokens))}/", 303)
        if not role and path not in self.open_paths:
            return PlainTextResponse("open the whole address that coad printed, with its token", 403)
        if scope["method"] == "POST":
            length = headers.get("content-length", "")
            # A body in chunks may be longer than the length that it declares.
            if "transfer-encoding" in headers or not length.isdigit() or int(length) > _LARGEST_BODY:
                return PlainTextResponse("the request is too large, or does not say how large it is", 413)
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return PlainTextResponse("JSON is expected", 415)
        return None
