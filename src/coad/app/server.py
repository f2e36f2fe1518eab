"""The explorer's web service: one page, its data and its exports, under an address with a secret token.

It answers to the names of this machine only (against DNS rebinding), serves only its own files, and loads nothing from
the network.
"""

from __future__ import annotations

import io
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.types import ASGIApp

from coad.app.marks import KindNote
from coad.app.session import Session
from coad.app.view import View
from coad.exceptions import CoadError, FileError
from coad.report.page_assets import COMMON_STYLE
from coad.web.answers import CONTENT_TYPES, json_answer, static_files
from coad.web.guard import Guard
from coad.workflows.scoring import open_writer

__all__ = ["make_app"]


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
        return json_answer(session.current.overview())

    @app.get("/api/look")
    def _look(asked: Looked) -> Response:
        return json_answer(session.current.look(asked.view(), tune=asked.tune))

    @app.get("/api/verdict")
    def _verdict(asked: Looked) -> Response:
        return json_answer(session.current.judged(asked.view()))

    @app.post("/api/rule")
    def _rule(body: RuleBody) -> Response:
        view = View(body.threshold_s, body.threshold_q, body.beta, saved=body.saved)
        return json_answer({"said": session.save_rule(view)})

    @app.get("/api/findings")
    def _findings() -> Response:
        return json_answer(session.findings())

    @app.post("/api/decide")
    def _decide(body: DecisionBody) -> Response:
        session.decide(body.number, body.decision)
        return json_answer(session.findings())

    @app.post("/api/decisions")
    def _decisions(body: EmptyBody) -> Response:
        said = session.save_decisions()
        return json_answer({"said": said} | session.findings())

    @app.get("/api/surface")
    def _surface(beta: float) -> Response:
        return json_answer(session.current.surface(beta))

    @app.get("/api/more")
    def _more() -> Response:
        return json_answer(session.current.more())

    @app.get("/api/event/{pair}")
    def _event(pair: int, asked: Looked) -> Response:
        return json_answer(session.current.event(pair, asked.view()))

    @app.get("/api/why/{pair}")
    def _why(pair: int) -> Response:
        return json_answer(session.current.why(pair))

    @app.post("/api/mark")
    def _mark(body: MarkBody) -> Response:
        view = View(body.threshold_s, body.threshold_q, saved=body.saved).check()
        session.current.mark(body.pair, body.verdict, view)
        return json_answer({"kept": True})

    @app.post("/api/kind")
    def _kind(body: KindBody) -> Response:
        session.note(KindNote(body.kind[:200], body.name[:200], body.dismissed))
        return json_answer({"kinds": session.current.kinds()})

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

    return Guard(app, {token: "operate"}, names={"127.0.0.1", "localhost"}, port=port, once=once)


def _own_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, read once; nothing else on the disk is ever served."""
    own = static_files(
        "coad.app", "index.html", "explorer.js", "findings.js", "pictures.js", "scatter.js", "explorer.css"
    )
    own["common.css"] = (COMMON_STYLE.encode(), CONTENT_TYPES["css"])
    plotly = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    own["plotly.min.js"] = (plotly, CONTENT_TYPES["js"])
    return own


def _as_bytes(table: Any, name: str) -> bytes:
    buffer = io.BytesIO()
    with open_writer(Path(name))(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()
