"""Build the wheel and try it in clean environments: all extras, lowest allowed versions, no extra.

``make package`` runs this. In each environment the commands read CSV and Parquet; without extras, those that
need networks must say what to install. The lowest versions are those of ``constraints-min.txt``, which ``--write-min``
makes from pyproject.toml. Torch is the build of ``constraints.txt`` even among them, because older builds for Linux bring
5 GB of CUDA; ``--lowest-torch`` takes that time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

ROOT = Path(__file__).parent.parent
MINIMUM = ROOT / "constraints-min.txt"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
#: Extras that are tried with the lowest versions; not lume, because lume-base needs NumPy 2.
WITH_LOWEST = ("learn", "plot", "app", "bench", "excel", "onnx", "mlflow")
#: What a developer's shell sets for Python must not reach the environments.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
CLEAN["OMP_NUM_THREADS"] = "1"  # two environments are tried at once


def main() -> None:
    if "--write-min" in sys.argv:
        MINIMUM.write_text(lowest_versions())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", name, str(ROOT)])
        (wheel,) = folder.glob("*.whl")
        write_tables(folder)
        pinned = (ROOT / "constraints.txt").read_text()
        lowest = MINIMUM.read_text()
        if "--lowest-torch" not in sys.argv:
            lowest = re.sub(r"^torch==.*\n", "", lowest, flags=re.MULTILINE) + pinned
        some = ",".join(WITH_LOWEST)
        with ThreadPoolExecutor() as pool:
            for done in [
                pool.submit(lambda: check_extras(install(folder / "all", f"{wheel}[all]", pinned))),
                pool.submit(lambda: check_extras(install(folder / "lowest", f"{wheel}[{some}]", lowest))),
            ]:
                done.result()
        check_no_extras(install(folder / "none", str(wheel), ""), folder / "all" / "model")


def extras() -> dict[str, list[str]]:
    """What each extra in pyproject.toml installs."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    return found


def lowest_versions() -> str:
    """The highest lower bound of each package in pyproject.toml, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in WITH_LOWEST for line in extras()[extra]),
    ]
    bounds: dict[str, str] = {}
    for package, version in re.findall(r"^([\w-]+)>=([\d.]+)$", "\n".join(wanted), re.MULTILINE):
        bounds[package] = max(bounds.get(package, "0"), version, key=_parts)
    return "".join(f"{package}=={version}\n" for package, version in sorted(bounds.items()))


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def install(place: Path, what: str, constraints: str) -> Path:
    """A new environment with the wheel; returns its ``coad`` command."""
    start = time.monotonic()
    place.with_suffix(".txt").write_text(constraints)
    run([sys.executable, "-m", "venv", "--without-pip", str(place)])
    # Compiling every module of torch would take longer than the commands do.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(place / SCRIPTS / "python"),
        "install",
        "--no-compile",
    ]
    run([*pip, "--quiet", "--only-binary", ":all:", "-c", str(place.with_suffix(".txt")), what])
    say(f"{place.name}: installed in {time.monotonic() - start:.0f} s")
    return place / SCRIPTS / "coad"


def check_extras(coad: Path) -> None:
    folder = coad.parents[1]
    model = folder / "model"
    run([coad, "--help"])
    for kind in ("csv", "parquet"):
        table, scores = folder.parent / f"table.{kind}", folder / f"scores.{kind}"
        found = run([coad, "thresholds", table, "--s", "a", "--q", "c"])
        assert found.startswith("found:"), found
        assert "report:" in run([coad, "find", table, "--s", "a,b", "--q", "c,d", "--out", folder / "run"])
        run([coad, "decide", folder / "run", "1", "event"])
        run([coad, "fit", table, "--s", "a,b", "--q", "c,d", "--epochs", "3", "--out", model])
        flagged = run([coad, "score", model, table, "--out", scores])
        assert re.search(r"^[1-9]\d* flagged", flagged, re.MULTILINE), flagged
        run([coad, "report", model, table, "--out", folder / "report.html"])
    exported = run([coad, "export", model, "--to", "onnx", "--out", folder / "model.onnx"])
    assert "as in Python on 1,000 rows" in exported, exported
    check_explorer([coad, "explore", model, table, "--no-browser"])
    say(f"{folder.name}: thresholds, find, decide, fit, score, report, export and explore work")


def check_explorer(command: list[object]) -> None:
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=CLEAN) as explorer:
        try:
            assert explorer.stdout is not None
            address = explorer.stdout.readline().split()[-1]
            with urllib.request.urlopen(address) as page:
                assert b"<title>" in page.read()
        finally:
            explorer.terminate()


def check_no_extras(coad: Path, model: Path) -> None:
    folder = coad.parents[1]
    run([coad, "--help"])
    for kind in ("csv", "parquet"):
        table = folder.parent / f"table.{kind}"
        found = run([coad, "thresholds", table, "--s", "a", "--q", "c"])
        assert found.startswith("found:"), found
        listed = run([coad, "find", table, "--s", "a,b", "--q", "c,d", "--out", folder / "run"])
        assert "beyond chance" in listed, listed
        assert re.search(r"^no report: .*pip install 'coad\[plot\]'$", listed, re.MULTILINE), listed
        run([coad, "score", folder / "run", table, "--out", folder / "found.csv"])
        for command in (
            ["fit", table, "--s", "a,b", "--q", "c,d", "--out", folder / "new"],
            ["score", model, table, "--out", folder / "new.csv"],
            ["report", model, table, "--out", folder / "new.html"],
        ):
            refused = run([coad, *command], code=2).strip()
            assert re.fullmatch(r".*pip install 'coad\[learn\]'", refused), refused
    say(f"{folder.name}: thresholds and find work, and the other commands say what to install")


def write_tables(folder: Path) -> None:
    """Four columns, all of them far out at one in twenty rows, as CSV and as Parquet."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2000, 4))
    values[rng.random(2000) < 0.05] += 5.0
    table = pa.table(dict(zip("abcd", values.T, strict=True)))
    pyarrow.csv.write_csv(table, folder / "table.csv")
    pyarrow.parquet.write_table(table, folder / "table.parquet")


def run(command: list[object], code: int = 0) -> str:
    """What a command printed (the errors, if it was to fail); ends the script if its exit code is another."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=CLEAN)
    if done.returncode != code:
        sys.exit(f"exit code {done.returncode}, not {code}: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stderr if code else done.stdout


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
