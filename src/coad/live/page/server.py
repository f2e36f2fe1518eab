"""The control-room page's web service: a stream of what changes, and the actions of people on alarms."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from coad.exceptions import CoadError, FileError
from coad.live.page.metrics import metrics
from coad.live.reading import Action, WatchState
from coad.report.page_assets import COMMON_STYLE
from coad.web.answers import CONTENT_TYPES, json_answer, static_files
from coad.web.guard import Guard
from coad.web.plain import plain

__all__ = ["OPERATE", "VIEW", "make_page"]

VIEW, OPERATE = "view", "operate"
_EVERY_SECONDS = 1.0  # people read no faster
_REFUSALS, _ALARMS, _EVENTS = 100, 200, 500


class ActionBody(BaseModel):
    """What a person does about an alarm."""

    model_config = ConfigDict(extra="forbid")
    key: str = Field(max_length=100)
    action: Action
    person: str = Field(max_length=100)
    note: str = Field("", max_length=1000)
    minutes: float | None = Field(None, gt=0, le=60 * 24 * 31)


def make_page(
    watch: WatchState, tokens: Mapping[str, str], port: int, *, ended: Callable[[], bool], once: str = ""
) -> ASGIApp:
    """The web service.

    Parameters
    ----------
    watch
        The watch that is shown.
    tokens
        Token to role, ``"view"`` or ``"operate"``. Everything but ``/healthz`` needs one.
    port
        Where it is served.
    ended
        Says that the server stops, so that streams end.
    once
        ``/once`` leads to the page of the first token a single time.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    own = static_files("coad.live.page", "index.html", "live.js", "draw.js", "live.css")
    own["common.css"] = (COMMON_STYLE.encode(), CONTENT_TYPES["css"])

    @app.exception_handler(CoadError)
    def _refused(_: Request, error: CoadError) -> Response:
        return JSONResponse({"error": str(error)}, 500 if isinstance(error, FileError) else 400)

    @app.exception_handler(RequestValidationError)
    def _misread(_: Request, error: RequestValidationError) -> Response:
        said = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"error": "; ".join(said)}, 422)

    @app.get("/")
    def _page() -> Response:
        return Response(own["index.html"][0], media_type=own["index.html"][1])

    @app.get("/static/{name}")
    def _static(name: str) -> Response:
        if name not in own:
            return PlainTextResponse("there is no such file", 404)
        return Response(own[name][0], media_type=own[name][1])

    @app.get("/api/state")
    def _state(request: Request, station: str = "") -> Response:
        return json_answer({"role": request.state.role, **_sections(watch, station)})

    @app.get("/api/stream")
    async def _stream(request: Request, station: str = "") -> Response:
        lines = _changes(watch, station, request.state.role, ended)
        return StreamingResponse(lines, media_type="text/event-stream")

    @app.post("/api/act")
    def _act(request: Request, body: ActionBody) -> Response:
        if request.state.role != OPERATE:
            return JSONResponse({"error": "this address may only look; acting needs the other one"}, 403)
        now = watch.snapshot([])["time"] or time.time_ns()
        until = None if body.minutes is None else now + round(body.minutes * 60e9)
        return json_answer(plain(watch.store.act(body.key, body.action, body.person, body.note, until)))

    @app.get("/metrics")
    def _metrics() -> Response:
        return Response(metrics(watch), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz")
    def _health() -> Response:
        shown = watch.snapshot([])
        # A source that is silent is no reason to start the watch again: its lag is said, and that is all.
        well = shown["status"] == "running" and not shown["trouble"]
        body = {"status": "ok" if well else "not ok", "lag_s": shown["lag_s"]}
        return JSONResponse(body, 200 if well else 503)

    # Any host name: the page may stand behind a proxy or a tunnel, and without a token there is nothing to see.
    return Guard(app, tokens, names=None, port=port, once=once, open_paths={"/healthz"})


def _sections(watch: WatchState, station: str) -> dict[str, Any]:
    """All that the page shows, in parts that change at different times."""
    shown = dict(watch.snapshot([station] if station else []))
    store = watch.store
    confirmed, marked = store.precision()
    waves, stations = shown.pop("waves"), shown.pop("stations")
    return plain(
        {
            "now": {**shown, "counters": store.counters(), "confirmed": confirmed, "marked": marked},
            "stations": stations,
            "waves": waves.get(station),
            "alarms": store.alarms(limit=_ALARMS),
            "events": [
                {name: one[name] for name in ("key", "station", "stations", "start", "end", "score", "state")}
                for one in store.events(limit=_EVENTS)
            ],
            "refusals": store.refusals(limit=_REFUSALS),
            "drift": store.drift(),
        }
    )


async def _changes(
    watch: WatchState, station: str, role: str, ended: Callable[[], bool]
) -> AsyncIterator[str]:
    """Server-sent events: at first every section, then those that have changed."""
    last: dict[str, str] = {}
    first: dict[str, Any] = {"role": role}
    while not ended():
        sections = await run_in_threadpool(_sections, watch, station)
        texts = {name: json.dumps(value, allow_nan=False) for name, value in sections.items()}
        news = [name for name, text in texts.items() if last.get(name) != text]
        body = [f"{json.dumps(name)}: {texts[name]}" for name in news]
        body += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in first.items()]
        yield f"data: {{{', '.join(body)}}}\n\n"
        last, first = texts, {}
        await asyncio.sleep(_EVERY_SECONDS)
