"""Run every quick benchmark, or those named: ``python -m benchmarks search honesty``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

NAMES = ("search", "honesty", "startup", "learned")
#: Run only by name: they take many minutes, or room on disk.
LONG = (
    "ablation",
    "background",
    "background_learned",
    "digits",
    "explain",
    "export",
    "findings",
    "findings_level",
    "live",
    "live_kills",
    "mnist",
    "mnist_paper",
    "mnist_separate",
    "modes",
    "modes_real",
    "modes_sets",
    "modes_tables",
    "peers",
    "regime_level",
    "report",
    "scale",
    "slow_level",
    "streaming",
    "streaming_thresholds",
    "survival",
)


def main() -> None:
    here = Path(__file__).parent
    sys.path[:0] = [str(here.parent / "tests")]  # for the slow references
    wanted = sys.argv[1:] or NAMES
    unknown = set(wanted) - {*NAMES, *LONG}
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES + LONG)}")
    for name in wanted:
        import_module(f"benchmarks.{name}").run()


if __name__ == "__main__":
    main()
