"""``watch.toml``: which source, which stations, which gates, alarms and outputs; checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from coad.data.layout import Layout
from coad.exceptions import CoadError, InputError
from coad.live.alarms import AlarmSettings
from coad.live.drift import DriftSettings
from coad.live.engine import Engine, EngineSettings
from coad.live.model import LiveModel
from coad.live.protocols import OUTPUTS, SOURCES, Output, Source, Wanted, adapter
from coad.live.selection import Gate, Trigger
from coad.live.settings import Nanoseconds, TomlFile
from coad.live.sources.replay import Replay
from coad.live.values import Step

__all__ = ["ModelSection", "PageSection", "StationsSection", "StoreSection", "TimeSection", "WatchConfig"]

_SECOND = 1_000_000_000
_SECTIONS = (
    "source", "model", "stations", "time", "gate", "trigger", "alarms", "drift", "store", "output", "page",
    "stream",  # of coad stream, which reads the rest as a watch does
)  # fmt: skip


@dataclass(frozen=True)
class ModelSection:
    """The model. ``s``, ``q``, ``time`` and so on are for a model that was saved from Python, without a layout."""

    missing: Literal["drop", "mean"] | None = None
    shadow: str = ""  # a folder: its model runs beside, and only its differences are listed
    s: tuple[str, ...] = ()
    q: tuple[str, ...] = ()
    time: str | None = None
    time_unit: str | None = None
    context: tuple[str, ...] = ()
    group: str | None = None
    window: int | None = None
    stride: int | None = None
    max_gap: str | None = None

    def layout(self) -> Layout | None:
        """The layout that the section describes; None without columns."""
        if not self.s and not self.q:
            return None
        if not self.s or not self.q:
            raise InputError("[model] needs the columns of both s and q, or of none")
        stride = self.stride if self.stride is not None else self.window
        return Layout(
            self.s, self.q, self.context or None, self.time, group=self.group, time_unit=self.time_unit,
            window=self.window, stride=stride, max_gap=self.max_gap,
        )  # fmt: skip


@dataclass(frozen=True)
class StationsSection:
    """Many sources and one witness."""

    names: tuple[str, ...] = ()
    models: dict[str, str] = field(default_factory=dict)  # station → folder, if not the one of the command
    witness_context: tuple[str, ...] = ()  # contexts and gates that come with the witness
    system_above: int = 3
    margin: float = 0.1
    settle: Nanoseconds = _SECOND


@dataclass(frozen=True)
class TimeSection:
    """Clocks: how late samples may come, and how the witness is matched."""

    lateness: Nanoseconds = 0
    stale: Nanoseconds = 10 * _SECOND
    jump: Nanoseconds = 600 * _SECOND
    align: Literal["nearest", "hold", "interpolate"] | None = None
    tolerance: Nanoseconds | None = None


@dataclass(frozen=True)
class StoreSection:
    """The database, relative to the model folder, and how long what is in it is kept."""

    file: str = "watch.db"
    keep: Nanoseconds = 0  # 0: for ever


@dataclass(frozen=True)
class PageSection:
    """The control-room page; without a ``port`` there is none, and 0 takes a free one."""

    port: int | None = None
    host: str = "127.0.0.1"
    token_file: str = ""
    view_token_file: str = ""


@dataclass(frozen=True)
class WatchConfig:
    """A ``watch.toml`` that was checked, as far as that is possible without the model.

    ``source`` and ``outputs`` are the classes of the adapters with their settings.
    """

    file: TomlFile
    source: tuple[type, Any]
    model: ModelSection
    stations: StationsSection
    time: TimeSection
    gates: tuple[Gate, ...]
    trigger: Trigger | None
    alarms: AlarmSettings
    drift: DriftSettings
    store: StoreSection
    page: PageSection
    outputs: tuple[tuple[str, type, Any], ...]

    @classmethod
    def read(
        cls, path: Path | None, replay: dict[str, Any] | None = None, *, sourceless: bool = False
    ) -> WatchConfig:
        """Read and check a file.

        Parameters
        ----------
        path
            The file; None: all settings have their defaults.
        replay
            A section to use in place of ``[source]``. The database is then another one, and there is no page.
        sourceless
            Whether nobody will open the source, so that the file need not have one.
        """
        file = TomlFile("watch.toml", "") if path is None else TomlFile(path)
        file.check_sections(_SECTIONS)
        if replay is not None:
            file.values["source"] = {"kind": "replay", **replay}
        if sourceless:
            file.values.setdefault("source", {"kind": "replay"})
        if "source" not in file.values:
            raise file.error('a section [source] is missing; it has a kind, such as kind = "files"', "source")
        outputs = []
        for place, table in enumerate(file.tables("output")):
            kind, found, settings = _adapter(file, "output", table, OUTPUTS, place)
            name = str(table.get("name", kind if len(file.tables("output")) == 1 else f"{kind} {place + 1}"))
            outputs.append((name, found, settings))
        _, source_class, source_settings = _adapter(file, "source", file.values["source"], SOURCES, 0)
        trigger = file.section("trigger", Trigger) if "trigger" in file.values else None
        return cls(
            file,
            (source_class, source_settings),
            file.section("model", ModelSection),
            file.section("stations", StationsSection),
            file.section("time", TimeSection),
            tuple(file.sections("gate", Gate)),
            trigger,
            file.section("alarms", AlarmSettings),
            file.section("drift", DriftSettings),
            file.section("store", StoreSection) if replay is None else StoreSection("replay.db"),
            file.section("page", PageSection) if replay is None else PageSection(),
            tuple(outputs),
        )

    def engine_settings(self, model: LiveModel) -> EngineSettings:
        """The settings of the engine for a model."""
        names = self.stations.names
        if not names and model.recipe.clocks is not None:
            names = ("s",)  # fitted on two files
        time, stations = self.time, self.stations
        return EngineSettings(
            names, time.lateness, time.stale, time.jump, time.align, time.tolerance, stations.witness_context,
            self.gates, self.trigger, stations.system_above, stations.margin, stations.settle,
            self.drift.every > 0,
        )  # fmt: skip

    def models(self, folder: Path) -> dict[str, LiveModel]:
        """The model of each station, loaded once for each folder."""
        layout, missing = self.model.layout(), self.model.missing
        loaded: dict[Path, LiveModel] = {}
        found = {}
        for name in self.stations.names or ("",):
            path = Path(self.stations.models[name]) if name in self.stations.models else folder
            if path not in loaded:
                loaded[path] = LiveModel.read(path, layout, missing)
            found[name] = loaded[path]
        if not self.stations.names and found[""].recipe.clocks is not None:
            found = {"s": found[""]}
        return found

    def engine(self, folder: Path) -> Engine:
        """A fresh engine with the models of a folder."""
        models = self.models(folder)
        shadow = None
        if self.model.shadow:
            shadow = LiveModel.read(Path(self.model.shadow), self.model.layout(), self.model.missing)
        return Engine(models, self.engine_settings(next(iter(models.values()))), shadow)

    def training_steps(self, folder: Path) -> Iterator[Step]:
        """What a fresh engine finds in the recording that the model was fitted on."""
        drift, engine = self.drift, self.engine(folder)
        if drift.training_q:
            settings = Replay.Settings(
                s_file=drift.training, q_file=drift.training_q, station=drift.training_station
            )
        else:
            settings = Replay.Settings(file=drift.training)
        try:
            for chunk in Replay(settings, engine.wanted()).chunks():
                if chunk is not None:
                    yield engine.push([chunk])
        except CoadError as error:
            raise self.file.error(str(error), "drift", "training") from error
        yield engine.close()

    def open_source(self, wanted: Wanted) -> Source:
        """The source; it may connect only when it is read."""
        made, settings = self.source
        try:
            source: Source = made(settings, wanted)
        except CoadError as error:
            raise self.file.error(str(error), "source") from error
        return source

    def open_outputs(self) -> list[Output]:
        """The outputs, each with its name."""
        opened: list[Output] = []
        for place, (name, made, settings) in enumerate(self.outputs):
            try:
                output: Output = made(settings)
            except CoadError as error:
                raise self.file.error(str(error), "output", None, place) from error
            output.name = name
            opened.append(output)
        return opened


def _adapter(
    file: TomlFile, section: Literal["source", "output"], table: Any, homes: dict[str, str], place: int
) -> tuple[str, type, Any]:
    if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
        raise file.error(f"[{section}] needs a kind: {', '.join(homes)}", section, "kind", place)
    try:
        found = adapter(table["kind"], homes, what=section)
    except InputError as error:
        raise file.error(str(error), section, "kind", place) from error
    but: Sequence[str] = ("kind", "name") if section == "output" else ("kind",)
    settings: Any = file.filled(table, found.Settings, section, place, tuple(but))  # type: ignore[attr-defined]
    return table["kind"], found, settings
