"""Kill a child process at a random moment, as a power cut would."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable

_MOMENT = random.Random(0)


def killed(child: subprocess.Popen[bytes], ready: Callable[[], bool], longest: float) -> bool:
    """Kill the child up to ``longest`` seconds after ``ready``; False if it ended by itself before."""
    while not ready() and child.poll() is None:
        time.sleep(0.005)
    time.sleep(_MOMENT.uniform(0.0, longest))
    alive = child.poll() is None
    if alive:
        child.send_signal(signal.SIGKILL)
    child.wait(60)
    return alive
