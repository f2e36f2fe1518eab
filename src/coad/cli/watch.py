"""``coad watch``: score two inputs as they come, and raise alarms that survive a restart."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._options import QFileOption, SFileOption
from coad.cli._print import out
from coad.exceptions import InputError

if TYPE_CHECKING:
    from coad.live.config import WatchConfig
    from coad.live.watcher import Watcher


#: Makes the model folder and the settings of ``--demo``; set by ``__main__``, since the simulator is not of the product.
make_demo: Callable[[Path], tuple[Path, Path]] | None = None


def watch(
    model: Annotated[
        Path | None,
        typer.Argument(help="Model folder, written by coad fit, find or modes.", show_default=False),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The settings: watch.toml.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings and the model, and stop.")
    ] = False,
    replay: Annotated[Path | None, typer.Option(help="Watch a recording instead of the source.")] = None,
    s_file: SFileOption = None,
    q_file: QFileOption = None,
    speed: Annotated[
        str, typer.Option(help="Of a replay: max, or a multiple of the speed at which it was recorded.")
    ] = "max",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a replay that was stopped; default: start again.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Watch a simulated control room: 81 stations, one beam, 120 Hz.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Of the demo: open its page in a browser.")] = True,
) -> None:
    """Watch two inputs as they come; Ctrl-C ends cleanly."""
    if demo:
        if (model, config, replay, s_file, q_file) != (None,) * 5 or check:
            raise InputError("--demo makes its own model and settings; leave out everything but --no-browser")
        with TemporaryDirectory(prefix="coad-demo-") as home:
            _run(*_demo(Path(home)), browser=browser)
        return
    from coad.live.config import WatchConfig

    if model is None:
        raise InputError("name the model folder, or watch a simulated control room with --demo")
    recording = _recording(replay, s_file, q_file, speed)
    if config is None and recording is None:
        raise InputError("name the settings with --config watch.toml, or a recording with --replay")
    settings = WatchConfig.read(config, recording)
    if check:
        engine = settings.engine(model)
        settings.open_source(engine.wanted()).close()
        for output in settings.open_outputs():
            output.close()
        streams = {
            name or "the input": ", ".join(columns) for name, columns in engine.wanted().columns.items()
        }
        for name, columns in streams.items():
            out(f"{name}: {columns}")
        out("the settings are right")
        return
    if recording is not None and not resume:
        for suffix in ("", "-wal", "-shm"):
            (model / f"{settings.store.file}{suffix}").unlink(missing_ok=True)
    _run(model, settings)


def _demo(home: Path) -> tuple[Path, WatchConfig]:
    from coad.live.config import WatchConfig

    if make_demo is None:
        raise InputError("the demo is a part of the command coad, and of python -m coad")
    model, config = make_demo(home)
    return model, WatchConfig.read(config)


def _run(model: Path, settings: WatchConfig, *, browser: bool = False) -> None:
    """Watch, with the page if the settings ask for one."""
    from coad.live.logs import log_lines
    from coad.live.watcher import Watcher

    log_lines()
    watcher = Watcher(model, settings)
    with _stopped_by_signals(watcher), ExitStack() as served:
        if settings.page.port is not None:
            from coad.live.page.serve import Page

            page = served.enter_context(Page(watcher, **asdict(settings.page)))
            for line in page.said():
                out(line)
            sys.stdout.flush()
            if browser:
                page.open_browser()
        watcher.run()
    _summary(watcher)


def _recording(
    replay: Path | None, s_file: Path | None, q_file: Path | None, speed: str
) -> dict[str, Any] | None:
    """The source section of a replay; None if there is none."""
    if replay is None and s_file is None and q_file is None:
        return None
    try:
        factor = 0.0 if speed == "max" else float(speed)
    except ValueError:
        factor = -1.0
    if factor < 0 or (factor == 0 and speed != "max"):
        raise InputError(f"--speed must be max or a positive number, not {speed!r}")
    files = {"file": replay, "s_file": s_file, "q_file": q_file}
    return {"speed": factor, **{name: str(path) for name, path in files.items() if path is not None}}


@contextmanager
def _stopped_by_signals(watcher: Watcher) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the watch after the step that is under way; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        watcher.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(watcher: Watcher) -> None:
    from coad.live.store import Store

    store = Store(watcher.store.path)
    counts, alarms = store.counters(), store.alarms(limit=-1)
    out(f"{counts.get('samples', 0):,} samples, {counts.get('pairs', 0):,} pairs scored")
    events = len(store.events(-(2**62), -1))
    out(f"{counts.get('flagged', 0):,} flagged in {events:,} event{'s'[: events != 1]}")
    states = Counter(one["state"] for one in alarms)
    out(
        f"{len(alarms):,} alarm{'s'[: len(alarms) != 1]}"
        + "".join(f", {n:,} {state}" for state, n in sorted(states.items()))
    )
    refused: Counter[str] = Counter()
    for one in store.refusals(-(2**62), -1):
        refused[one["reason"]] += one["n_pairs"]
    for reason, n in sorted(refused.items()):
        out(f"refused: {n:,} ({reason})")
    out(f"kept in {store.path}")
    store.close()
