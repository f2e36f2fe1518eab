"""The explorer's web service: one page, its data and its exports, under an address with a secret token.

It answers to the names of this machine only (against DNS rebinding), serves only its own files, and loads nothing from
the network.
"""

from __future__ import annotations

import io
import json
import secrets
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.types import ASGIApp, Receive, Scope, Send

from coad.app.marks import KindNote
from coad.app.session import Session
from coad.app.view import View
from coad.exceptions import CoadError, FileError
from coad.report.page_assets import COMMON_STYLE
from coad.workflows.scoring import open_writer

__all__ = ["make_app"]

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


class MarkBody(BaseModel):
    """A mark as the page sends it; without a verdict, the marks of the event are removed."""

    model_config = ConfigDict(extra="forbid")
    pair: int
    verdict: str | None = None
    threshold_s: float
    threshold_q: float
    saved: bool = False


class RuleBody(BaseModel):
    """The rule to save: thresholds and β, or the one that is shown."""

    model_config = ConfigDict(extra="forbid")
    threshold_s: float
    threshold_q: float
    beta: float
    saved: bool = False


class KindBody(BaseModel):
    """A name for a kind, and whether it is dismissed."""

    model_config = ConfigDict(extra="forbid")
    kind: str
    name: str = ""
    dismissed: bool = False


class DecisionBody(BaseModel):
    """What a finding is: event, normal or ignore; nothing takes it back."""

    model_config = ConfigDict(extra="forbid")
    number: int
    decision: str | None = None


class EmptyBody(BaseModel):
    """A request that says nothing but its address."""

    model_config = ConfigDict(extra="forbid")


class LookQuery(BaseModel):
    """The sliders and filters as the page sends them; ``tune`` asks for the best thresholds."""

    model_config = ConfigDict(extra="forbid")
    threshold_s: float = 0.5
    threshold_q: float = 0.5
    beta: float = 1.0
    regime: int = -1
    finding: int = -1
    start: float | None = None
    end: float | None = None
    kind: str = ""
    mark: str = ""
    sort: str = "strongest"
    show: str = "events"
    page: int = 0
    saved: bool = False
    tune: bool = False

    def view(self) -> View:
        """The same as a checked :class:`View`."""
        return View(**self.model_dump(exclude={"tune"})).check()


Looked = Annotated[LookQuery, Query()]


def make_app(session: Session, token: str, port: int, once: str = "") -> ASGIApp:
    """The web service.

    Parameters
    ----------
    session : Session
        The current explorer.
    token : str
        Everything is under ``/token/``.
    port : int
        Part of the only host names that are answered.
    once : str, optional
        ``/once`` leads to the page a single time: the address for a browser's command line, which others can read.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    own = _own_files()

    @app.exception_handler(CoadError)
    def _refused(_: Request, error: CoadError) -> Response:
        return JSONResponse({"error": str(error)}, 500 if isinstance(error, FileError) else 400)

    @app.exception_handler(RequestValidationError)
    def _misread(_: Request, error: RequestValidationError) -> Response:
        # Without the values that were sent: JSON cannot hold all of them (NaN, half characters).
        said = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"error": "; ".join(said)}, 422)

    @app.get("/")
    def _page() -> Response:
        content, kind = own["index.html"]
        return Response(content, media_type=kind)

    @app.get("/static/{name}")
    def _static(name: str) -> Response:
        if name not in own:
            return PlainTextResponse("there is no such file", 404)
        content, kind = own[name]
        return Response(content, media_type=kind)

    @app.get("/api/start")
    def _start() -> Response:
        return _json(session.current.overview())

    @app.get("/api/look")
    def _look(asked: Looked) -> Response:
        return _json(session.current.look(asked.view(), tune=asked.tune))

    @app.get("/api/verdict")
    def _verdict(asked: Looked) -> Response:
        return _json(session.current.judged(asked.view()))

    @app.post("/api/rule")
    def _rule(body: RuleBody) -> Response:
        view = View(body.threshold_s, body.threshold_q, body.beta, saved=body.saved)
        return _json({"said": session.save_rule(view)})

    @app.get("/api/findings")
    def _findings() -> Response:
        return _json(session.findings())

    @app.post("/api/decide")
    def _decide(body: DecisionBody) -> Response:
        session.decide(body.number, body.decision)
        return _json(session.findings())

    @app.post("/api/decisions")
    def _decisions(body: EmptyBody) -> Response:
        said = session.save_decisions()
        return _json({"said": said} | session.findings())

    @app.get("/api/surface")
    def _surface(beta: float) -> Response:
        return _json(session.current.surface(beta))

    @app.get("/api/more")
    def _more() -> Response:
        return _json(session.current.more())

    @app.get("/api/event/{pair}")
    def _event(pair: int, asked: Looked) -> Response:
        return _json(session.current.event(pair, asked.view()))

    @app.get("/api/why/{pair}")
    def _why(pair: int) -> Response:
        return _json(session.current.why(pair))

    @app.post("/api/mark")
    def _mark(body: MarkBody) -> Response:
        view = View(body.threshold_s, body.threshold_q, saved=body.saved).check()
        session.current.mark(body.pair, body.verdict, view)
        return _json({"kept": True})

    @app.post("/api/kind")
    def _kind(body: KindBody) -> Response:
        session.note(KindNote(body.kind[:200], body.name[:200], body.dismissed))
        return _json({"kinds": session.current.kinds()})

    @app.get("/export/{name}")
    def _export(name: str, asked: Looked) -> Response:
        what, _, form = name.partition(".")
        if what not in ("events", "marks") or form not in ("csv", "parquet"):
            return PlainTextResponse("there are events and marks, as .csv and .parquet", 404)
        table = (
            session.current.marks.table() if what == "marks" else session.current.events_table(asked.view())
        )
        return Response(
            _as_bytes(table, name),
            media_type="text/csv; charset=utf-8" if form == "csv" else "application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{what}.{form}"'},
        )

    return Guard(app, token=token, port=port, once=once)


class Guard:
    """Refuses requests without the token, or with another host name, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, *, token: str, port: int, once: str = "") -> None:
        self.app, self.token, self.once = app, token, once
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets here

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        answer = self._answer(scope)
        if answer is not None:
            await answer(scope, receive, with_headers)
            return
        path = scope["path"][1 + len(self.token) :]
        scope = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """A refusal, or the way from the address that works once; None for what the service answers."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if headers.get("host", "") not in self.hosts:
            return PlainTextResponse("this explorer answers only to 127.0.0.1 and localhost", 403)
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return PlainTextResponse("requests of other pages are refused", 403)
        if self.once and secrets.compare_digest(scope["path"].encode(), f"/{self.once}".encode()):
            self.once = ""
            return RedirectResponse(f"/{self.token}/", 303)
        first, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(first.encode(), self.token.encode()):
            return PlainTextResponse("open the whole address that coad explore printed, with its token", 403)
        if scope["method"] == "POST":
            length = headers.get("content-length", "")
            # A body in chunks may be longer than the length that it declares.
            if "transfer-encoding" in headers or not length.isdigit() or int(length) > _LARGEST_BODY:
                return PlainTextResponse("the request is too large, or does not say how large it is", 413)
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return PlainTextResponse("JSON is expected", 415)
        return None


def _own_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, read once; nothing else on the disk is ever served."""
    kinds = {
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "css": "text/css; charset=utf-8",
    }
    own = {}
    for name in ("index.html", "explorer.js", "findings.js", "pictures.js", "scatter.js", "explorer.css"):
        content = files("coad.app").joinpath("static", name).read_bytes()
        own[name] = (content, kinds[name.rpartition(".")[2]])
    own["common.css"] = (COMMON_STYLE.encode(), kinds["css"])
    plotly = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    own["plotly.min.js"] = (plotly, kinds["js"])
    return own


def _json(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False), media_type="application/json")


def _as_bytes(table: Any, name: str) -> bytes:
    buffer = io.BytesIO()
    with open_writer(Path(name))(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()
