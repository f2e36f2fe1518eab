"""Editors and type checkers see real types on the public names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import coad

SCRIPT = """
import numpy as np
import coad
from coad.data import Layout, make_windows
from coad.exceptions import NotFittedError

rng = np.random.default_rng(0)
s, q = rng.normal(size=(100, 3)), rng.normal(size=(100, 2))
{names}
reveal_type(coad.CoAD(beta=1.0).fit(s, q))
reveal_type(coad.CoAD().predict(s, q))
reveal_type(coad.CoAD().evaluate(s, q).interval)
reveal_type(coad.CoAD().score(s, q))
reveal_type(coad.CoincidenceModes().fit(s, q).modes_)
reveal_type(coad.CoincidenceThreshold().fit(s, q).predict(s, q))
reveal_type(coad.select_thresholds(s[:, 0], q[:, 0]).threshold_s)
reveal_type(coad.Pairs(s, q)[:10])
reveal_type(coad.load("folder"))
reveal_type(Layout)
reveal_type(make_windows)
reveal_type(NotFittedError)
"""


def test_no_public_name_is_any_for_a_users_script(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    names = [name for name in coad.__all__ if name != "__version__"]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(names="\n".join(f"reveal_type(coad.{name})" for name in names)))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(names) + 12, done.stdout + done.stderr
    assert "error:" not in done.stdout, done.stdout
    untyped = [text for text in revealed if text in ("Any", "builtins.object") or text.endswith("-> Any")]
    assert not untyped, untyped
