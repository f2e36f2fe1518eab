"""What happens where an optional package is not installed: one line that says how to get it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

#: Makes some modules impossible to find, as if they had not been installed.
WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Hidden())
"""


def run_without(names: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that cannot import some modules."""
    command = [sys.executable, "-c", WITHOUT.format(names=names) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "{table}", "--s", "a", "--q", "b", "--out", "{folder}/model"],
        ["modes", "{table}", "--s", "a", "--q", "b", "--out", "{folder}/model"],
        ["score", "{model}", "{table}", "--out", "{folder}/scores.csv"],
        ["evaluate", "{model}", "{table}"],
        ["report", "{model}", "{table}", "--out", "{folder}/report.html"],
        ["explore", "{model}", "{table}", "--no-browser"],
        ["export", "{model}", "--to", "onnx", "--out", "{folder}/model.onnx"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_torch_a_command_says_what_to_install(arguments, tmp_path):
    models = Path(__file__).parent / "models" / "format_1"
    table = models / "windows.csv"
    places = {"table": table, "model": models / "windows", "folder": tmp_path}
    words = [word.format(**places) for word in arguments]
    done = run_without(["torch"], f"sys.argv = {['coad', *words]!r}\nfrom coad.__main__ import main\nmain()")
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1].endswith("pip install 'coad[learn]'"), done.stderr
    assert "Traceback" not in done.stderr


def test_without_torch_the_class_says_what_to_install():
    done = run_without(["torch"], "import coad\ncoad.CoAD")
    assert "coad.exceptions.MissingPackageError: this needs torch" in done.stderr


def test_thresholds_need_no_extra():
    code = "import coad, numpy as np\nx = np.arange(100.0)\nprint(coad.select_thresholds(x, x).status)"
    done = run_without(["torch", "plotly", "fastapi", "uvicorn", "pyod"], code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("found", "shared regime suspected", "no coincidence")


def test_findings_need_no_extra(tmp_path):
    done = run_without(
        ["torch", "plotly", "pandas", "pyod", "fastapi"],
        "import coad, numpy as np\n"
        "s, q = np.random.default_rng(0).normal(size=(2, 30_000, 40)); s[:300] += 6; q[:300] -= 6\n"
        f"coad.find(s[::50], q[::50], ordered=False).save({str(tmp_path / 'run')!r})\n"
        f"print(coad.load({str(tmp_path / 'run')!r}).predict(s, q)[:300].mean() > 0.9)",
    )
    assert done.stdout.split() == ["True"], done.stderr


@pytest.mark.parametrize(
    ("package", "to", "extra"),
    [
        ("onnx", "onnx", "onnx"),
        ("onnxscript", "onnx", "onnx"),
        ("lume", "lume", "lume"),
        ("mlflow", "mlflow", "mlflow"),
    ],
)
def test_without_its_package_an_export_says_what_to_install(package, to, extra, tmp_path):
    model = Path(__file__).parent / "models" / "format_1" / "windows"
    words = ["coad", "export", str(model), "--to", to, "--out", str(tmp_path / "out")]
    done = run_without([package], f"sys.argv = {words!r}\nfrom coad.__main__ import main\nmain()")
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1].endswith(f"pip install 'coad[{extra}]'"), done.stderr


def test_the_lowest_versions_that_are_tried_are_those_that_are_allowed():
    from check_package import MINIMUM, lowest_versions

    assert MINIMUM.read_text() == lowest_versions(), "run: python tests/check_package.py --write-min"


def test_all_extras_are_in_all():
    from check_package import extras

    # The versions that Quix Streams asks for would hold back those of the rest: it has an environment of its own.
    own, reached, waiting = extras(), {"dev", "docs", "stream"}, ["all"]
    while waiting:
        extra = waiting.pop()
        reached.add(extra)
        parts = re.findall(r"coad\[(.*?)\]", " ".join(own[extra]))
        waiting += [one for part in parts for one in part.split(",") if one not in reached]
    assert set(own) <= reached
