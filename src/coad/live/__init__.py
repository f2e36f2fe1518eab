"""Live monitoring: two inputs as they come, decisions of a saved model, alarms that survive a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coad._lazy import lazy_names

if TYPE_CHECKING:  # for editors and type checkers; at run time the names are imported on first use
    from coad.live.engine import Engine, EngineSettings
    from coad.live.model import LiveModel
    from coad.live.protocols import Output, OutputError, Record, Source, Wanted
    from coad.live.store import Store
    from coad.live.values import Chunk, Event, Refusal, ScoredRows, Step

#: Public name → the module it lives in.
_HOME = {
    "Chunk": "coad.live.values",
    "Engine": "coad.live.engine",
    "EngineSettings": "coad.live.engine",
    "Event": "coad.live.values",
    "LiveModel": "coad.live.model",
    "Output": "coad.live.protocols",
    "OutputError": "coad.live.protocols",
    "Record": "coad.live.protocols",
    "Refusal": "coad.live.values",
    "ScoredRows": "coad.live.values",
    "Source": "coad.live.protocols",
    "Step": "coad.live.values",
    "Store": "coad.live.store",
    "Wanted": "coad.live.protocols",
}

__all__ = [
    "Chunk",
    "Engine",
    "EngineSettings",
    "Event",
    "LiveModel",
    "Output",
    "OutputError",
    "Record",
    "Refusal",
    "ScoredRows",
    "Source",
    "Step",
    "Store",
    "Wanted",
]

__getattr__ = lazy_names(__name__, _HOME)
