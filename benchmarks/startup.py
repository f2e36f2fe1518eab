"""How quickly the package imports and the command line answers."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks._results import record, table


def run() -> None:
    rows = []
    for name, code in (
        ("python -c pass", "pass"),
        ("import coad", "import coad"),
        ("coad --help", "import sys; sys.argv = ['coad', '--help']; from coad.__main__ import main; main()"),
    ):
        times = [_timed(code) for _ in range(5)]
        rows.append((f"`{name}`", f"{min(times):.2f} s"))
    record("startup", "Start-up, best of five", table(("command", "time"), rows))


def _timed(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
