"""``coad stream``: the watch on several workers, which share the stations of a Kafka topic."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coad.cli._print import out

if TYPE_CHECKING:
    from coad.live.store import Store
    from coad.streams.config import StreamConfig

app = typer.Typer(
    help="Watch on several workers: publish samples to Kafka, work on them, collect what is found.",
    no_args_is_help=True,
)
ModelArgument = Annotated[Path, typer.Argument(help="Model folder, written by coad fit, find or modes.")]
ConfigOption = Annotated[
    Path | None, typer.Option(help="The settings: a watch.toml, with how to reach Kafka.")
]


@app.command()
def publish(model: ModelArgument, config: ConfigOption = None) -> None:
    """Read the source of a watch, and publish it in messages of about a second."""
    settings = _settings(model, config, sourceless=False)
    from coad.streams.publish import publish as run

    with _stopped_by_signals() as stop:
        sent = run(settings, stop)
    out(f"{sent:,} messages to {settings.stream.topic!r}")


@app.command()
def work(model: ModelArgument, config: ConfigOption = None) -> None:
    """Score the samples of the partitions that this worker is given; start as many as there is work for."""
    settings = _settings(model, config)
    from coad.streams.work import work as run

    run(settings)


@app.command()
def collect(model: ModelArgument, config: ConfigOption = None) -> None:
    """Keep what the workers find in one database, and hand it to the outputs; ends with a recording."""
    settings = _settings(model, config)
    from coad.streams.collect import collect as run

    with _stopped_by_signals() as stop:
        store = run(settings, stop)
    _summary(store)


def _settings(model: Path, config: Path | None, *, sourceless: bool = True) -> StreamConfig:
    from coad.live.logs import log_lines
    from coad.streams.config import StreamConfig

    log_lines()
    settings = StreamConfig.read(model, config, sourceless=sourceless)
    settings.check()
    return settings


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end after the step that is under way; a second Ctrl-C ends at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ended(number: int, frame: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {one: signal.signal(one, ended) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(store: Store) -> None:
    counts, events = store.counters(), store.events(-(2**62), -1)
    out(f"{counts.get('samples', 0):,} samples, {counts.get('pairs', 0):,} pairs scored")
    out(f"{counts.get('flagged', 0):,} flagged in {len(events):,} event{'s'[: len(events) != 1]}")
    refused: Counter[str] = Counter()
    for one in store.refusals(-(2**62), -1):
        refused[one["reason"]] += one["n_pairs"]
    for reason, n in sorted(refused.items()):
        out(f"refused: {n:,} ({reason})")
    for name in ("malformed", "malformed results", "results of another model"):
        if counts.get(name):
            out(f"left out: {counts[name]:,} ({name})")
    out(f"kept in {store.path}")
    store.close()
